"""Static members keep their assignment when they rejoin with their instance id."""

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import State
from odradek.core.groups.commands import (
    HeartbeatResponse,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    SyncResponse,
)
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness
from tests.unit.core.groups.members import GROUP, REBALANCE_MS, SESSION_MS, heartbeat, join, joined, protocols, sync


def static_pair(harness: CoordinatorHarness) -> list[JoinResponse]:
    """The leader, called `one`, and another, called `two`."""
    tokens = [harness.send(join(instance_id=name)) for name in ("one", "two")]
    harness.commit()
    harness.pass_time(6_000)
    responses = [joined(harness, token) for token in tokens]
    assert responses[0].leader == responses[0].member_id
    assignments = {response.member_id: response.leader.encode() for response in responses}
    for name, response in (("two", responses[1]), ("one", responses[0])):
        harness.send(sync(response, assignments, instance_id=name))
    harness.commit()
    return responses


def state_of(harness: CoordinatorHarness) -> State:
    group = harness.coordinator.group(GROUP)
    assert group is not None
    return group.state


def test_static_member_rejoins_without_a_rebalance_after_the_commit() -> None:
    harness = CoordinatorHarness()
    one, two = static_pair(harness)
    waiting = harness.send(join(instance_id="two"))
    assert waiting not in harness.responses
    harness.commit()
    back = joined(harness, waiting)
    assert back.generation_id == two.generation_id
    assert back.member_id != two.member_id
    assert harness.execute(sync(back, instance_id="two")) == SyncResponse(
        ErrorCode.none, "consumer", "range", one.member_id.encode()
    )
    assert harness.execute(heartbeat(two, instance_id="two")) == HeartbeatResponse(ErrorCode.fenced_instance_id)
    assert harness.failover().execute(heartbeat(back, instance_id="two")) == HeartbeatResponse(ErrorCode.none)


def test_failed_write_keeps_the_former_member_id() -> None:
    harness = CoordinatorHarness()
    _, two = static_pair(harness)
    harness.failing = ErrorCode.not_leader_or_follower
    rejected = harness.execute(join(instance_id="two"))
    assert isinstance(rejected, JoinResponse)
    assert (rejected.error, rejected.member_id) == (ErrorCode.not_coordinator, "")
    assert harness.execute(heartbeat(two, instance_id="two")) == HeartbeatResponse(ErrorCode.none)


def test_rebalance_completes_the_pending_static_join() -> None:
    harness = CoordinatorHarness()
    one, _ = static_pair(harness)
    waiting = harness.send(join(instance_id="two"))
    harness.send(join(one.member_id, instance_id="one"))
    harness.commit()
    assert joined(harness, waiting).generation_id == 2


def test_static_member_is_removed_when_its_session_expires() -> None:
    harness = CoordinatorHarness()
    one, two = static_pair(harness)
    harness.send(join("", version=3))
    harness.pass_time(SESSION_MS - 1)
    assert harness.execute(heartbeat(two, instance_id="two")) == HeartbeatResponse(ErrorCode.rebalance_in_progress)
    assert harness.execute(heartbeat(one, instance_id="one")) == HeartbeatResponse(ErrorCode.rebalance_in_progress)
    for _ in range(REBALANCE_MS // 5_000):
        harness.pass_time(5_000)
        harness.send(heartbeat(two, instance_id="two"))
        harness.send(heartbeat(one, instance_id="one"))
    assert state_of(harness) is State.COMPLETING_REBALANCE
    group = harness.coordinator.group(GROUP)
    assert group is not None
    assert set(group.static_members) == {"one", "two"}


def test_same_instance_id_fences_the_waiting_member() -> None:
    harness = CoordinatorHarness()
    first = harness.send(join(instance_id="one"))
    second = harness.send(join(instance_id="one"))
    fenced = harness.responses[first]
    assert isinstance(fenced, JoinResponse)
    assert fenced.error is ErrorCode.fenced_instance_id
    harness.commit()
    harness.pass_time(3_000)
    assert len(joined(harness, second).members) == 1


def test_static_member_can_be_removed_by_instance_id() -> None:
    harness = CoordinatorHarness()
    one, _ = static_pair(harness)
    members = [LeavingMember("", "two"), LeavingMember("", "three"), LeavingMember(one.member_id, "two")]
    response = harness.execute(LeaveGroup(GROUP, members))
    assert isinstance(response, LeaveResponse)
    assert [member.error for member in response.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert state_of(harness) is State.PREPARING_REBALANCE


def test_changed_protocols_of_a_static_member_trigger_a_rebalance() -> None:
    harness = CoordinatorHarness()
    known = protocols("range", "sticky")
    tokens = [harness.send(join(instance_id=name, protocols=known)) for name in ("one", "two")]
    harness.commit()
    harness.pass_time(6_000)
    one, two = (joined(harness, token) for token in tokens)
    harness.send(sync(two, instance_id="two"))
    harness.send(sync(one, instance_id="one"))
    harness.commit()
    waiting = harness.send(join(instance_id="two", protocols=protocols("sticky")))
    harness.commit()
    assert waiting not in harness.responses
    assert state_of(harness) is State.PREPARING_REBALANCE
    harness.send(join(one.member_id, instance_id="one", protocols=known))
    assert joined(harness, waiting).protocol_name == "sticky"
