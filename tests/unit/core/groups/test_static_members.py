"""Static members: who comes back under its instance id keeps its place."""

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import State
from odradek.core.groups.commands import (
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    SyncAnswer,
)
from tests.unit.core.groups.host import Host
from tests.unit.core.groups.members import GROUP, REBALANCE_MS, SESSION_MS, heartbeat, join, joined, protocols, sync


def static_pair(host: Host) -> list[JoinAnswer]:
    """The leader, called `one`, and another, called `two`."""
    tokens = [host.send(join(instance_id=name)) for name in ("one", "two")]
    host.commit()
    host.pass_time(6_000)
    answers = [joined(host, token) for token in tokens]
    assert answers[0].leader == answers[0].member_id
    assignments = {answer.member_id: answer.leader.encode() for answer in answers}
    for name, answer in (("two", answers[1]), ("one", answers[0])):
        host.send(sync(answer, assignments, instance_id=name))
    host.commit()
    return answers


def state_of(host: Host) -> State:
    group = host.coordinator.group(GROUP)
    assert group is not None
    return group.state


def test_it_comes_back_without_a_rebalance_once_that_is_committed() -> None:
    host = Host()
    one, two = static_pair(host)
    waiting = host.send(join(instance_id="two"))
    assert waiting not in host.answers
    host.commit()
    back = joined(host, waiting)
    assert back.generation_id == two.generation_id
    assert back.member_id != two.member_id
    assert host.ask(sync(back, instance_id="two")) == SyncAnswer(
        ErrorCode.none, "consumer", "range", one.member_id.encode()
    )
    assert host.ask(heartbeat(two, instance_id="two")) == HeartbeatAnswer(ErrorCode.fenced_instance_id)
    assert host.failover().ask(heartbeat(back, instance_id="two")) == HeartbeatAnswer(ErrorCode.none)


def test_if_that_could_not_be_written_the_old_id_stays() -> None:
    host = Host()
    _, two = static_pair(host)
    host.failing = ErrorCode.not_leader_or_follower
    refused = host.ask(join(instance_id="two"))
    assert isinstance(refused, JoinAnswer)
    assert (refused.error, refused.member_id) == (ErrorCode.not_coordinator, "")
    assert host.ask(heartbeat(two, instance_id="two")) == HeartbeatAnswer(ErrorCode.none)


def test_a_rebalance_that_begins_meanwhile_answers_it() -> None:
    host = Host()
    one, _ = static_pair(host)
    waiting = host.send(join(instance_id="two"))
    host.send(join(one.member_id, instance_id="one"))
    host.commit()
    assert joined(host, waiting).generation_id == 2


def test_it_is_waited_for_as_long_as_its_session_lasts() -> None:
    host = Host()
    one, two = static_pair(host)
    host.send(join("", version=3))
    host.pass_time(SESSION_MS - 1)
    assert host.ask(heartbeat(two, instance_id="two")) == HeartbeatAnswer(ErrorCode.rebalance_in_progress)
    assert host.ask(heartbeat(one, instance_id="one")) == HeartbeatAnswer(ErrorCode.rebalance_in_progress)
    for _ in range(REBALANCE_MS // 5_000):
        host.pass_time(5_000)
        host.send(heartbeat(two, instance_id="two"))
        host.send(heartbeat(one, instance_id="one"))
    assert state_of(host) is State.COMPLETING_REBALANCE
    group = host.coordinator.group(GROUP)
    assert group is not None
    assert set(group.static_members) == {"one", "two"}


def test_others_with_its_name_fence_it_while_it_waits() -> None:
    host = Host()
    first = host.send(join(instance_id="one"))
    second = host.send(join(instance_id="one"))
    fenced = host.answers[first]
    assert isinstance(fenced, JoinAnswer)
    assert fenced.error is ErrorCode.fenced_instance_id
    host.commit()
    host.pass_time(3_000)
    assert len(joined(host, second).members) == 1


def test_it_can_be_sent_away_by_its_name_alone() -> None:
    host = Host()
    one, _ = static_pair(host)
    members = [LeavingMember("", "two"), LeavingMember("", "three"), LeavingMember(one.member_id, "two")]
    answer = host.ask(LeaveGroup(GROUP, members))
    assert isinstance(answer, LeaveAnswer)
    assert [member.error for member in answer.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert state_of(host) is State.PREPARING_REBALANCE


def test_other_preferences_call_everybody_together() -> None:
    host = Host()
    known = protocols("range", "sticky")
    tokens = [host.send(join(instance_id=name, protocols=known)) for name in ("one", "two")]
    host.commit()
    host.pass_time(6_000)
    one, two = (joined(host, token) for token in tokens)
    host.send(sync(two, instance_id="two"))
    host.send(sync(one, instance_id="one"))
    host.commit()
    waiting = host.send(join(instance_id="two", protocols=protocols("sticky")))
    host.commit()
    assert waiting not in host.answers
    assert state_of(host) is State.PREPARING_REBALANCE
    host.send(join(one.member_id, instance_id="one", protocols=known))
    assert joined(host, waiting).protocol_name == "sticky"
