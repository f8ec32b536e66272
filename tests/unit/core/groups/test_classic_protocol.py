"""The classic protocol where it is hard: failures in the middle, late comers, and who has no business here."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import State
from odradek.core.groups.commands import HeartbeatAnswer, JoinAnswer, JoinGroup, LeaveAnswer, LeftMember, SyncAnswer
from odradek.core.groups.records import GroupMetadataValue
from odradek.core.groups.settings import GroupSettings
from tests.unit.core.groups.host import Host
from tests.unit.core.groups.members import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    given_id,
    heartbeat,
    join,
    joined,
    leave,
    protocols,
    stable_group,
    sync,
    synced,
)


def state_of(host: Host) -> State:
    group = host.coordinator.group(GROUP)
    assert group is not None
    return group.state


# ---- the way to a generation


def test_a_group_comes_to_be() -> None:
    host = Host()
    leader, *others = stable_group(host, 3)
    assert state_of(host) is State.STABLE
    assert {member.member_id for member in leader.members} == {leader.member_id, *(one.member_id for one in others)}
    assert all(one.members == () and one.leader == leader.member_id for one in others)
    last = host.appended[-1].value
    assert isinstance(last, GroupMetadataValue)
    assert {member.member_id: member.assignment for member in last.members} == {
        one.member_id: one.member_id.encode() for one in [leader, *others]
    }


def test_the_first_rebalance_waits_longer_while_others_come_but_not_for_ever() -> None:
    host = Host(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = host.send(join(given_id(host), rebalance_timeout_ms=8_000))
    for _ in range(5):
        host.pass_time(2_000)
        if first in host.answers:
            break
        host.send(join(given_id(host), rebalance_timeout_ms=8_000))
    assert host.now_ms == 8_000
    assert len(joined(host, first).members) == 4


def test_nobody_hears_of_an_assignment_before_it_is_committed() -> None:
    host = Host()
    token = host.send(join(given_id(host)))
    host.commit()
    host.pass_time(3_000)
    answer = joined(host, token)
    waiting = host.send(sync(answer, {answer.member_id: b"mine"}))
    assert waiting not in host.answers
    assert state_of(host) is State.COMPLETING_REBALANCE
    host.commit()
    assert synced(host, waiting) == SyncAnswer(ErrorCode.none, "consumer", "range", b"mine")


def test_an_assignment_that_could_not_be_written_calls_everybody_back() -> None:
    host = Host()
    token = host.send(join(given_id(host)))
    host.commit()
    host.pass_time(3_000)
    answer = joined(host, token)
    host.failing = ErrorCode.not_enough_replicas
    waiting = host.send(sync(answer, {answer.member_id: b"mine"}))
    assert synced(host, waiting).error is ErrorCode.coordinator_not_available
    assert state_of(host) is State.PREPARING_REBALANCE
    host.failing = None
    again = host.send(join(answer.member_id))
    assert joined(host, again).generation_id == 2


def test_an_assignment_committed_too_late_is_nobodys() -> None:
    host = Host()
    leader = stable_group(host, 1)[0]
    second = host.send(join(leader.member_id))
    answer = joined(host, second)
    late = host.send(sync(answer, {leader.member_id: b"old"}))
    newcomer = host.send(join("", version=3))
    assert synced(host, late).error is ErrorCode.rebalance_in_progress
    host.commit()
    assert state_of(host) is State.PREPARING_REBALANCE
    third = host.send(join(leader.member_id))
    assert joined(host, third).generation_id == 3
    assert joined(host, newcomer).generation_id == 3


def test_who_does_not_come_back_is_left_behind() -> None:
    host = Host()
    leader, silent = stable_group(host, 2)
    again = host.send(join(leader.member_id))
    assert again not in host.answers
    for _ in range(REBALANCE_MS // 5_000):
        host.pass_time(5_000)
        host.send(heartbeat(silent))
    answer = joined(host, again)
    assert [member.member_id for member in answer.members] == [leader.member_id]
    assert host.ask(heartbeat(silent)) == HeartbeatAnswer(ErrorCode.unknown_member_id)


def test_a_leader_that_does_not_come_back_is_replaced() -> None:
    host = Host()
    leader, other = stable_group(host, 2)
    newcomer = host.send(join("", version=3))
    again = host.send(join(other.member_id))
    host.pass_time(REBALANCE_MS)
    answers = [joined(host, newcomer), joined(host, again)]
    assert {answer.leader for answer in answers} <= {answer.member_id for answer in answers}
    assert leader.member_id not in {answer.leader for answer in answers}


def test_who_does_not_ask_for_its_assignment_is_out() -> None:
    host = Host()
    tokens = [host.send(join(given_id(host))) for _ in range(2)]
    host.commit()
    host.pass_time(6_000)
    first, second = (joined(host, token) for token in tokens)
    leader, silent = (first, second) if first.leader == first.member_id else (second, first)
    host.send(sync(leader, {leader.member_id: b"x", silent.member_id: b"y"}))
    host.commit()
    for _ in range(REBALANCE_MS // 5_000):
        host.pass_time(5_000)
        host.send(heartbeat(leader))
        host.send(heartbeat(silent))
    assert state_of(host) is State.PREPARING_REBALANCE
    assert host.ask(heartbeat(silent)) == HeartbeatAnswer(ErrorCode.unknown_member_id)
    assert host.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.rebalance_in_progress)


# ---- sessions


def test_a_silent_member_goes_when_its_session_is_over() -> None:
    host = Host()
    leader, silent = stable_group(host, 2)
    host.pass_time(SESSION_MS - 1)
    assert host.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.none)
    host.pass_time(1)
    assert host.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.rebalance_in_progress)
    assert host.ask(heartbeat(silent)) == HeartbeatAnswer(ErrorCode.unknown_member_id)


def test_who_waits_for_a_rebalance_needs_no_heartbeats() -> None:
    host = Host()
    leader, other = stable_group(host, 2)
    waiting = host.send(join(leader.member_id))
    for _ in range(4):
        host.pass_time(SESSION_MS // 2)
        host.send(heartbeat(other))
    host.send(join(other.member_id))
    assert joined(host, waiting).generation_id == 2


def test_an_id_that_nobody_joins_with_is_forgotten() -> None:
    host = Host()
    leader = stable_group(host, 1)[0]
    pending = given_id(host)
    again = host.send(join(leader.member_id))
    assert again not in host.answers, "who has been given an id is waited for"
    host.pass_time(SESSION_MS)
    assert joined(host, again).generation_id == 2
    answer = host.ask(join(pending))
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.unknown_member_id


def test_the_last_one_leaves_an_empty_group_behind() -> None:
    host = Host()
    leader = stable_group(host, 1)[0]
    left = LeftMember(leader.member_id, None, ErrorCode.none)
    assert host.ask(leave(leader.member_id)) == LeaveAnswer(ErrorCode.none, (left,))
    assert state_of(host) is State.EMPTY
    last = host.appended[-1].value
    assert isinstance(last, GroupMetadataValue)
    assert (last.generation, last.members, last.leader) == (2, (), None)


# ---- bad input


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (join(group_id=""), ErrorCode.invalid_group_id),
        (join(session_timeout_ms=1), ErrorCode.invalid_session_timeout),
        (join(session_timeout_ms=2**31 - 1), ErrorCode.invalid_session_timeout),
        (join("made up"), ErrorCode.unknown_member_id),
        (join(protocols=()), ErrorCode.inconsistent_group_protocol),
        (join(protocol_type=""), ErrorCode.inconsistent_group_protocol),
    ],
)
def test_a_join_that_is_refused_harms_nobody(command: JoinGroup, error: ErrorCode) -> None:
    host = Host()
    answer = host.ask(command)
    assert isinstance(answer, JoinAnswer)
    assert answer.error is error
    assert host.coordinator.next_deadline_ms() is None
    stable_group(host, 1)


def test_the_same_protocol_named_twice_is_one() -> None:
    host = Host()
    answers = stable_group(host, 2, protocols=protocols("range", "range"))
    assert {answer.protocol_name for answer in answers} == {"range"}


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff", bytes(5), b"\xff" * 40]
)
def test_a_subscription_that_cannot_be_read_is_none(metadata: bytes) -> None:
    host = Host()
    stable_group(host, 1, protocols=tuple(one._replace(metadata=metadata) for one in protocols()))
    group = host.coordinator.group(GROUP)
    assert group is not None
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("anything")


def test_a_second_join_of_the_same_member_answers_the_first() -> None:
    host = Host()
    leader, _ = stable_group(host, 2)
    first, second = host.send(join(leader.member_id)), host.send(join(leader.member_id))
    answer = host.answers[first]
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.rebalance_in_progress
    assert second not in host.answers


def test_who_leaves_while_waiting_for_an_assignment_is_told() -> None:
    host = Host()
    tokens = [host.send(join(given_id(host))) for _ in range(2)]
    host.commit()
    host.pass_time(6_000)
    first, second = (joined(host, token) for token in tokens)
    other = second if first.leader == first.member_id else first
    waiting = host.send(sync(other))
    host.ask(leave(other.member_id))
    assert synced(host, waiting).error is ErrorCode.unknown_member_id


def test_a_full_group_takes_nobody_in() -> None:
    host = Host(GroupSettings(classic_group_max_size=2))
    leader, _ = stable_group(host, 2)
    refused = host.ask(join())
    assert isinstance(refused, JoinAnswer)
    assert (refused.error, refused.member_id) == (ErrorCode.group_max_size_reached, "")
    assert host.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.none)


# ---- leadership moves


def test_another_coordinator_goes_on_where_the_first_ended() -> None:
    host = Host()
    leader, other = stable_group(host, 2)
    successor = host.failover()
    assert state_of(successor) is State.STABLE
    for member in (leader, other):
        assert successor.ask(heartbeat(member)) == HeartbeatAnswer(ErrorCode.none)
        assert successor.ask(sync(member)) == SyncAnswer(ErrorCode.none, "consumer", "range", member.member_id.encode())
    successor.pass_time(SESSION_MS)
    assert successor.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.unknown_member_id)
    assert state_of(successor) is State.EMPTY


def test_a_rebalance_that_was_not_finished_is_forgotten() -> None:
    host = Host()
    leader, other = stable_group(host, 2)
    waiting = host.send(join(leader.member_id))
    host.send(join(other.member_id))
    assert joined(host, waiting).generation_id == 2
    successor = host.failover()
    assert successor.ask(heartbeat(joined(host, waiting))) == HeartbeatAnswer(ErrorCode.illegal_generation)
    assert successor.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.none)


def test_who_waits_is_told_that_the_coordinator_is_gone() -> None:
    host = Host()
    leader, _ = stable_group(host, 2)
    waiting = host.send(join(leader.member_id))
    host.take(host.coordinator.unload(host.now_ms))
    answer = host.answers[waiting]
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.not_coordinator
    assert host.ask(heartbeat(leader)) == HeartbeatAnswer(ErrorCode.coordinator_not_available)
    host.pass_time(10 * REBALANCE_MS)


def test_a_group_loaded_over_its_limit_is_called_together() -> None:
    host = Host()
    stable_group(host, 3)
    host.settings = GroupSettings(classic_group_max_size=2)
    successor = host.failover()
    assert state_of(successor) is State.PREPARING_REBALANCE


# ---- what is told of rebalances


def test_causes_of_rebalances_are_kept() -> None:
    host = Host()
    leader, silent = stable_group(host, 2)
    host.pass_time(SESSION_MS - 1)
    host.send(heartbeat(leader))
    host.pass_time(1)
    group = host.coordinator.group(GROUP)
    assert group is not None
    first, second = group.rebalances
    assert (first.cause.startswith("Adding new member"), first.ended_ms) == (True, 6_000)
    assert (second.cause, second.ended_ms) == (f"removing member {silent.member_id} on heartbeat expiration.", None)
