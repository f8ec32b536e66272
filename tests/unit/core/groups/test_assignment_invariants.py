"""Assertions of groups: a partition has one owner, a generation a leader, and state transitions are valid."""

from uuid import UUID

import pytest

from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_member import ClassicMember
from odradek.core.groups.commands import MemberProtocol
from odradek.core.groups.consumer_target import assert_single_owners

TOPIC = UUID(int=1)


def member() -> ClassicMember:
    protocols = (MemberProtocol("range", b""),)
    return ClassicMember("m", None, "client", "/host", 1000, 1000, "consumer", protocols)


def test_target_assignment_with_two_owners_is_asserted() -> None:
    assert_single_owners({"a": {TOPIC: {0, 1}}, "b": {TOPIC: {2}, UUID(int=2): {0}}})
    with pytest.raises(AssertionError, match="two owners"):
        assert_single_owners({"a": {TOPIC: {0, 1}}, "b": {TOPIC: {1}}})


def test_generation_with_an_unknown_leader_is_asserted() -> None:
    group = ClassicGroup("g", 0, state=State.PREPARING_REBALANCE)
    group.add(member())
    group.leader_id = "other"
    with pytest.raises(AssertionError, match="is not a member"):
        group.start_next_generation(0)


def test_invalid_state_transition_is_asserted() -> None:
    with pytest.raises(AssertionError, match="invalid transition"):
        ClassicGroup("g", 0).transition_to(State.STABLE, 0)
