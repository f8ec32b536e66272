"""When the controller probes a registered process that another one wants to replace, and what counts as proof."""

from dataclasses import replace
from uuid import UUID

import pytest

from odradek.core.liveness.probes import ProbeResult
from odradek.core.liveness.takeover import is_proof_of_death, may_be_dead
from tests.unit.core.liveness.detection import broker

DISK, OTHER_DISK = UUID(int=1001), UUID(int=1002)
REGISTERED = replace(broker(2), directories=(DISK,))


def is_worth_a_probe(
    *,
    incarnation: int = 77,
    directory: UUID = DISK,
    sends_heartbeats: bool = False,
    is_of_own_node: bool = False,
    is_in_own_process: bool = False,
) -> bool:
    return may_be_dead(
        REGISTERED,
        incarnation_id=UUID(int=incarnation),
        directories=(directory,),
        sends_heartbeats=sends_heartbeats,
        is_of_own_node=is_of_own_node,
        is_in_own_process=is_in_own_process,
    )


def is_proof(result: ProbeResult, *, before: bool = False, same: bool = False, own: bool = False) -> bool:
    return is_proof_of_death(result, has_accepted_before=before, is_at_probed_endpoint=same, is_in_own_process=own)


def test_process_without_heartbeats_may_be_dead() -> None:
    assert is_worth_a_probe()


def test_process_that_sends_heartbeats_is_alive() -> None:
    assert not is_worth_a_probe(sends_heartbeats=True)


def test_same_process_replaces_nothing() -> None:
    assert not is_worth_a_probe(incarnation=2)


def test_process_with_other_disks_waits_for_the_session() -> None:
    assert not is_worth_a_probe(directory=OTHER_DISK)


def test_broker_of_the_controllers_own_node_is_replaced_only_from_within() -> None:
    assert not is_worth_a_probe(is_of_own_node=True)
    assert is_worth_a_probe(is_of_own_node=True, is_in_own_process=True)


@pytest.mark.parametrize("result", [ProbeResult.CONNECTED, ProbeResult.UNREACHABLE])
def test_only_a_refusal_is_proof(result: ProbeResult) -> None:
    assert not is_proof(result, before=True, same=True)


def test_refusal_counts_after_an_accepted_connection_or_by_the_new_process_itself() -> None:
    assert is_proof(ProbeResult.REFUSED, before=True)
    assert is_proof(ProbeResult.REFUSED, same=True)
    assert not is_proof(ProbeResult.REFUSED)


@pytest.mark.parametrize("result", ProbeResult)
def test_own_process_needs_only_a_closed_port(result: ProbeResult) -> None:
    assert is_proof(result, own=True) is (result is not ProbeResult.CONNECTED)
