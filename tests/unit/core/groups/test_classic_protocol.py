"""The classic protocol with failed writes, late members and invalid requests."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import State
from odradek.core.groups.commands import (
    HeartbeatResponse,
    JoinGroup,
    JoinResponse,
    LeaveResponse,
    LeftMember,
    SyncResponse,
)
from odradek.core.groups.records import GroupMetadataValue
from odradek.core.groups.settings import GroupSettings
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness
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


def state_of(harness: CoordinatorHarness) -> State:
    group = harness.coordinator.group(GROUP)
    assert group is not None
    return group.state


# ---- the way to a generation


def test_first_members_create_a_group() -> None:
    harness = CoordinatorHarness()
    leader, *others = stable_group(harness, 3)
    assert state_of(harness) is State.STABLE
    assert {member.member_id for member in leader.members} == {leader.member_id, *(one.member_id for one in others)}
    assert all(one.members == () and one.leader == leader.member_id for one in others)
    last = harness.appended[-1].value
    assert isinstance(last, GroupMetadataValue)
    assert {member.member_id: member.assignment for member in last.members} == {
        one.member_id: one.member_id.encode() for one in [leader, *others]
    }


def test_initial_rebalance_delay_extends_up_to_the_rebalance_timeout() -> None:
    harness = CoordinatorHarness(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = harness.send(join(given_id(harness), rebalance_timeout_ms=8_000))
    for _ in range(5):
        harness.pass_time(2_000)
        if first in harness.responses:
            break
        harness.send(join(given_id(harness), rebalance_timeout_ms=8_000))
    assert harness.now_ms == 8_000
    assert len(joined(harness, first).members) == 4


def test_sync_response_waits_until_the_assignment_is_committed() -> None:
    harness = CoordinatorHarness()
    token = harness.send(join(given_id(harness)))
    harness.commit()
    harness.pass_time(3_000)
    response = joined(harness, token)
    waiting = harness.send(sync(response, {response.member_id: b"mine"}))
    assert waiting not in harness.responses
    assert state_of(harness) is State.COMPLETING_REBALANCE
    harness.commit()
    assert synced(harness, waiting) == SyncResponse(ErrorCode.none, "consumer", "range", b"mine")


def test_failed_assignment_write_restarts_the_rebalance() -> None:
    harness = CoordinatorHarness()
    token = harness.send(join(given_id(harness)))
    harness.commit()
    harness.pass_time(3_000)
    response = joined(harness, token)
    harness.failing = ErrorCode.not_enough_replicas
    waiting = harness.send(sync(response, {response.member_id: b"mine"}))
    assert synced(harness, waiting).error is ErrorCode.coordinator_not_available
    assert state_of(harness) is State.PREPARING_REBALANCE
    harness.failing = None
    again = harness.send(join(response.member_id))
    assert joined(harness, again).generation_id == 2


def test_assignment_of_an_earlier_generation_is_ignored() -> None:
    harness = CoordinatorHarness()
    leader = stable_group(harness, 1)[0]
    second = harness.send(join(leader.member_id))
    response = joined(harness, second)
    late = harness.send(sync(response, {leader.member_id: b"old"}))
    newcomer = harness.send(join("", version=3))
    assert synced(harness, late).error is ErrorCode.rebalance_in_progress
    harness.commit()
    assert state_of(harness) is State.PREPARING_REBALANCE
    third = harness.send(join(leader.member_id))
    assert joined(harness, third).generation_id == 3
    assert joined(harness, newcomer).generation_id == 3


def test_member_that_does_not_rejoin_is_removed() -> None:
    harness = CoordinatorHarness()
    leader, inactive = stable_group(harness, 2)
    again = harness.send(join(leader.member_id))
    assert again not in harness.responses
    for _ in range(REBALANCE_MS // 5_000):
        harness.pass_time(5_000)
        harness.send(heartbeat(inactive))
    response = joined(harness, again)
    assert [member.member_id for member in response.members] == [leader.member_id]
    assert harness.execute(heartbeat(inactive)) == HeartbeatResponse(ErrorCode.unknown_member_id)


def test_leader_that_does_not_rejoin_is_replaced() -> None:
    harness = CoordinatorHarness()
    leader, other = stable_group(harness, 2)
    newcomer = harness.send(join("", version=3))
    again = harness.send(join(other.member_id))
    harness.pass_time(REBALANCE_MS)
    responses = [joined(harness, newcomer), joined(harness, again)]
    assert {response.leader for response in responses} <= {response.member_id for response in responses}
    assert leader.member_id not in {response.leader for response in responses}


def test_member_that_does_not_sync_is_removed() -> None:
    harness = CoordinatorHarness()
    tokens = [harness.send(join(given_id(harness))) for _ in range(2)]
    harness.commit()
    harness.pass_time(6_000)
    first, second = (joined(harness, token) for token in tokens)
    leader, inactive = (first, second) if first.leader == first.member_id else (second, first)
    harness.send(sync(leader, {leader.member_id: b"x", inactive.member_id: b"y"}))
    harness.commit()
    for _ in range(REBALANCE_MS // 5_000):
        harness.pass_time(5_000)
        harness.send(heartbeat(leader))
        harness.send(heartbeat(inactive))
    assert state_of(harness) is State.PREPARING_REBALANCE
    assert harness.execute(heartbeat(inactive)) == HeartbeatResponse(ErrorCode.unknown_member_id)
    assert harness.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.rebalance_in_progress)


# ---- sessions


def test_member_is_removed_when_its_session_expires() -> None:
    harness = CoordinatorHarness()
    leader, inactive = stable_group(harness, 2)
    harness.pass_time(SESSION_MS - 1)
    assert harness.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.none)
    harness.pass_time(1)
    assert harness.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.rebalance_in_progress)
    assert harness.execute(heartbeat(inactive)) == HeartbeatResponse(ErrorCode.unknown_member_id)


def test_member_that_waits_for_a_join_response_needs_no_heartbeats() -> None:
    harness = CoordinatorHarness()
    leader, other = stable_group(harness, 2)
    waiting = harness.send(join(leader.member_id))
    for _ in range(4):
        harness.pass_time(SESSION_MS // 2)
        harness.send(heartbeat(other))
    harness.send(join(other.member_id))
    assert joined(harness, waiting).generation_id == 2


def test_unused_member_id_expires() -> None:
    harness = CoordinatorHarness()
    leader = stable_group(harness, 1)[0]
    pending = given_id(harness)
    again = harness.send(join(leader.member_id))
    assert again not in harness.responses, "who has been given an id is waited for"
    harness.pass_time(SESSION_MS)
    assert joined(harness, again).generation_id == 2
    response = harness.execute(join(pending))
    assert isinstance(response, JoinResponse)
    assert response.error is ErrorCode.unknown_member_id


def test_group_is_empty_after_the_last_member_leaves() -> None:
    harness = CoordinatorHarness()
    leader = stable_group(harness, 1)[0]
    left = LeftMember(leader.member_id, None, ErrorCode.none)
    assert harness.execute(leave(leader.member_id)) == LeaveResponse(ErrorCode.none, (left,))
    assert state_of(harness) is State.EMPTY
    last = harness.appended[-1].value
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
def test_rejected_join_does_not_change_the_group(command: JoinGroup, error: ErrorCode) -> None:
    harness = CoordinatorHarness()
    response = harness.execute(command)
    assert isinstance(response, JoinResponse)
    assert response.error is error
    assert harness.coordinator.next_deadline_ms() is None
    stable_group(harness, 1)


def test_duplicate_protocol_counts_once() -> None:
    harness = CoordinatorHarness()
    responses = stable_group(harness, 2, protocols=protocols("range", "range"))
    assert {response.protocol_name for response in responses} == {"range"}


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff", bytes(5), b"\xff" * 40]
)
def test_unreadable_subscription_counts_as_unknown(metadata: bytes) -> None:
    harness = CoordinatorHarness()
    stable_group(harness, 1, protocols=tuple(one._replace(metadata=metadata) for one in protocols()))
    group = harness.coordinator.group(GROUP)
    assert group is not None
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("anything")


def test_repeated_join_completes_the_first_one() -> None:
    harness = CoordinatorHarness()
    leader, _ = stable_group(harness, 2)
    first, second = harness.send(join(leader.member_id)), harness.send(join(leader.member_id))
    response = harness.responses[first]
    assert isinstance(response, JoinResponse)
    assert response.error is ErrorCode.rebalance_in_progress
    assert second not in harness.responses


def test_leaving_member_gets_a_sync_response() -> None:
    harness = CoordinatorHarness()
    tokens = [harness.send(join(given_id(harness))) for _ in range(2)]
    harness.commit()
    harness.pass_time(6_000)
    first, second = (joined(harness, token) for token in tokens)
    other = second if first.leader == first.member_id else first
    waiting = harness.send(sync(other))
    harness.execute(leave(other.member_id))
    assert synced(harness, waiting).error is ErrorCode.unknown_member_id


def test_full_classic_group_rejects_joins() -> None:
    harness = CoordinatorHarness(GroupSettings(classic_group_max_size=2))
    leader, _ = stable_group(harness, 2)
    rejected = harness.execute(join())
    assert isinstance(rejected, JoinResponse)
    assert (rejected.error, rejected.member_id) == (ErrorCode.group_max_size_reached, "")
    assert harness.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.none)


# ---- leadership moves


def test_new_coordinator_loads_a_stable_group() -> None:
    harness = CoordinatorHarness()
    leader, other = stable_group(harness, 2)
    successor = harness.failover()
    assert state_of(successor) is State.STABLE
    for member in (leader, other):
        assert successor.execute(heartbeat(member)) == HeartbeatResponse(ErrorCode.none)
        assert successor.execute(sync(member)) == SyncResponse(
            ErrorCode.none, "consumer", "range", member.member_id.encode()
        )
    successor.pass_time(SESSION_MS)
    assert successor.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.unknown_member_id)
    assert state_of(successor) is State.EMPTY


def test_unfinished_rebalance_is_not_loaded() -> None:
    harness = CoordinatorHarness()
    leader, other = stable_group(harness, 2)
    waiting = harness.send(join(leader.member_id))
    harness.send(join(other.member_id))
    assert joined(harness, waiting).generation_id == 2
    successor = harness.failover()
    assert successor.execute(heartbeat(joined(harness, waiting))) == HeartbeatResponse(ErrorCode.illegal_generation)
    assert successor.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.none)


def test_unload_completes_pending_joins_with_not_coordinator() -> None:
    harness = CoordinatorHarness()
    leader, _ = stable_group(harness, 2)
    waiting = harness.send(join(leader.member_id))
    harness.take(harness.coordinator.on_unloaded(harness.now_ms))
    response = harness.responses[waiting]
    assert isinstance(response, JoinResponse)
    assert response.error is ErrorCode.not_coordinator
    assert harness.execute(heartbeat(leader)) == HeartbeatResponse(ErrorCode.coordinator_not_available)
    harness.pass_time(10 * REBALANCE_MS)


def test_loaded_group_over_its_max_size_rebalances() -> None:
    harness = CoordinatorHarness()
    stable_group(harness, 3)
    harness.settings = GroupSettings(classic_group_max_size=2)
    successor = harness.failover()
    assert state_of(successor) is State.PREPARING_REBALANCE


# ---- rebalance reasons


def test_classic_group_records_rebalance_reasons() -> None:
    harness = CoordinatorHarness()
    leader, inactive = stable_group(harness, 2)
    harness.pass_time(SESSION_MS - 1)
    harness.send(heartbeat(leader))
    harness.pass_time(1)
    group = harness.coordinator.group(GROUP)
    assert group is not None
    first, second = group.rebalances
    assert (first.cause.startswith("Adding new member"), first.ended_ms) == (True, 6_000)
    assert (second.cause, second.ended_ms) == (
        f"removing member {inactive.member_id} on heartbeat expiration.",
        None,
    )
