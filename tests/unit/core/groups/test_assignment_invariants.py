"""Assertions of groups: a partition has one owner, and generations and members are valid."""

from uuid import UUID

import pytest

from odradek.core.groups.classic_group import ClassicGroup
from odradek.core.groups.classic_member import ClassicMember
from odradek.core.groups.commands import MemberProtocol
from odradek.core.groups.consumer_target import assert_single_owners

TOPIC = UUID(int=1)


def member(member_id: str = "m", session_timeout_ms: int = 1000) -> ClassicMember:
    protocols = (MemberProtocol("range", b""),)
    return ClassicMember(member_id, None, "client", "/host", 1000, session_timeout_ms, "consumer", protocols)


def test_target_assignment_with_two_owners_is_asserted() -> None:
    assert_single_owners({"a": {TOPIC: {0, 1}}, "b": {TOPIC: {2}, UUID(int=2): {0}}})
    with pytest.raises(AssertionError, match="two owners"):
        assert_single_owners({"a": {TOPIC: {0, 1}}, "b": {TOPIC: {1}}})


def test_member_that_joins_twice_is_asserted() -> None:
    group = ClassicGroup("g", 0)
    group.add(member())
    with pytest.raises(AssertionError, match="joins twice"):
        group.add(member())


def test_member_without_a_session_timeout_is_asserted() -> None:
    with pytest.raises(AssertionError, match="session timeout"):
        ClassicGroup("g", 0).add(member(session_timeout_ms=0))
