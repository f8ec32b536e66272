import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import TimedOut
from odradek.console.actions.action import Preview, Refused
from odradek.console.console import Console
from odradek.console.gateway import WAITING_MAX, Busy, Gateway
from odradek.console.settings import Settings
from odradek.console.shared import Shared
from tests.unit.console.snapshots import partition, snapshot, topic

T = TypeVar("T")
NOWHERE = (Address("127.0.0.1", 1),)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@dataclass
class Attempt:
    """An action that succeeds, or fails with the given exception."""

    end: Exception | None = None
    name: str = "Attempt"
    target: str = "nothing"
    topic: str | None = None
    tried: list[Cluster] = field(default_factory=list)

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        return Preview(sentence="")

    def carry_out(self, cluster: Cluster) -> str:
        self.tried.append(cluster)
        if self.end is not None:
            raise self.end
        return "It is done."


def console(tmp_path: Path, **more: Any) -> Console:
    return Console(Settings(bootstrap=NOWHERE, host="127.0.0.1", port=0, audit_log=tmp_path / "audit", **more))


def test_change_is_carried_out_and_audited(tmp_path: Path) -> None:
    made = console(tmp_path)
    outcome = run(made.carry_out(Attempt(), "ann"))
    assert (outcome.sentence, outcome.has_succeeded) == ("It is done.", True)
    (change,) = made.audit.last()
    assert (change.user, change.outcome, change.has_succeeded) == ("ann", "It is done.", True)


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (KafkaError(ErrorCode.policy_violation, "no\x07"), "Rejected with POLICY_VIOLATION: no\\x07."),
        (Refused("Not like that."), "Not like that."),
    ],
)
def test_refused_change_is_audited_with_its_reason(tmp_path: Path, end: Exception, sentence: str) -> None:
    made = console(tmp_path)
    outcome = run(made.carry_out(Attempt(end), "ann"))
    assert not outcome.has_succeeded
    assert outcome.sentence.startswith(sentence)
    assert made.audit.last()[0].outcome == outcome.sentence


def test_not_enough_replicas_error_names_the_broker_that_is_down(tmp_path: Path) -> None:
    made = console(tmp_path)
    made.watch.snapshot = snapshot(topic("orders", partition(0, (1, 2), isr=(1,))), down=(2,), min_isr={"orders": 2})
    attempt = Attempt(TimedOut("sending records", 5.0, "NOT_ENOUGH_REPLICAS", ErrorCode.not_enough_replicas))
    attempt.topic = "orders"
    outcome = run(made.carry_out(attempt, "ann"))
    assert "orders-0 has 1 of the 2 in-sync replicas" in outcome.sentence
    assert "because broker 2 is down" in outcome.sentence


def test_unexpected_exception_propagates_and_is_audited(tmp_path: Path) -> None:
    made = console(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run(made.carry_out(Attempt(ZeroDivisionError()), "ann"))
    (change,) = made.audit.last()
    assert not change.has_succeeded
    assert "Check whether the change took effect" in str(change.outcome)


def test_read_only_console_carries_out_no_action(tmp_path: Path) -> None:
    made = console(tmp_path, is_read_only=True)
    attempt = Attempt()
    assert "--read-only" in run(made.carry_out(attempt, "ann")).sentence
    assert attempt.tried == []
    assert made.audit.last() == []


def test_no_change_without_a_writable_audit_log(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    attempt = Attempt()
    assert "Nothing was changed" in run(console(tmp_path).carry_out(attempt, "ann")).sentence
    assert attempt.tried == []


def test_gateway_reuses_client_after_kafka_error_but_not_after_unexpected_exception() -> None:
    used: list[Cluster] = []

    def refuse(cluster: Cluster) -> None:
        used.append(cluster)
        raise KafkaError(ErrorCode.invalid_request)

    async def send_requests() -> None:
        gateway = Gateway(NOWHERE, threads=1)
        used.append(await gateway.query(lambda cluster: cluster))
        with pytest.raises(KafkaError):
            await gateway.query(refuse)
        used.append(await gateway.query(lambda cluster: cluster))
        with pytest.raises(ZeroDivisionError):
            await gateway.query(lambda cluster: 1 // 0)
        used.append(await gateway.query(lambda cluster: cluster))

    run(send_requests())
    assert used[0] is used[1] is used[2]
    # After an unexpected exception a response may still be pending on the connection.
    assert used[3] is not used[0]


def test_gateway_rejects_requests_beyond_its_queue_limit() -> None:
    async def send_requests() -> str:
        gateway = Gateway(NOWHERE, threads=1)
        hold = threading.Event()
        waiting = [asyncio.create_task(gateway.query(lambda cluster: hold.wait(10))) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        try:
            await gateway.query(lambda cluster: None)
        except Busy as busy:
            return str(busy)
        finally:
            hold.set()
            await asyncio.gather(*waiting)
        return "accepted"

    assert "Try again in a moment" in run(send_requests())


def test_shared_result_is_requested_once_and_failures_are_not_cached() -> None:
    requests: list[int] = []

    def request(cluster: Cluster) -> int:
        requests.append(1)
        if len(requests) == 1:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return len(requests)

    async def send_requests() -> list[int]:
        shared = Shared(Gateway(NOWHERE, threads=2), request, kept_s=60.0)
        with pytest.raises(KafkaError):
            await shared.get()
        results = list(await asyncio.gather(*(shared.get() for _ in range(5))))
        shared.forget()
        return [*results, await shared.get()]

    assert run(send_requests()) == [2, 2, 2, 2, 2, 3]
