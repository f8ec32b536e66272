"""Groups that change from one protocol to the other while they have members."""

from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import ClassicGroup
from odradek.core.groups.commands import (
    CommitOffsets,
    ConsumerGroupHeartbeatAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    MemberProtocol,
    PartitionOffset,
    SyncAnswer,
    TopicOffsets,
)
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.settings import Bounds, GroupSettings, MigrationPolicy
from odradek.core.groups.subscription import read_assignment, write_assignment
from tests.unit.core.groups.cluster import Cluster, Consumer
from tests.unit.core.groups.host import Host
from tests.unit.core.groups.members import GROUP, given_id, heartbeat, join, joined, leave, protocols, sync

NEW = "speaks-the-other"


def host_with(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> Host:
    settings = GroupSettings(
        consumer_assignment_interval=Bounds(0, 0, 15_000),
        consumer_session_timeout=Bounds(45_000, 45_000, 60_000),
        consumer_migration_policy=policy,
    )
    return Host(settings, now_ms=1_000_000, topics=Cluster(a=4))


def classic_member(host: Host) -> JoinAnswer:
    """The only one of its group, that has all of the topic."""
    token = host.send(join(given_id(host)))
    host.commit()
    host.pass_time(2 * host.settings.initial_rebalance_delay_ms)
    answer = joined(host, token)
    host.ask(sync(answer, {answer.member_id: write_assignment([("a", range(4))], 1)}))
    return answer


def newcomer(host: Host, **others: object) -> Consumer:
    return Consumer(host, NEW, group_id=GROUP, **others)  # type: ignore[arg-type]


def join_again(host: Host, member: JoinAnswer, owned: list[int] | None = None) -> JoinAnswer:
    told = protocols()[0]
    if owned is not None:
        subscription = b"\0\1" + told.metadata[2:] + write_assignment([("a", owned)], 1)[2:-4]
        told = told._replace(metadata=subscription)
    answer = host.ask(join(member.member_id, protocols=(told,)))
    assert isinstance(answer, JoinAnswer)
    return answer


def share(host: Host, member: JoinAnswer) -> list[int]:
    answer = host.ask(sync(member))
    assert isinstance(answer, SyncAnswer) and answer.error is ErrorCode.none, answer
    return list(read_assignment(answer.assignment).partitions.get("a", ()))


def error_of_heartbeat(host: Host, member: JoinAnswer) -> ErrorCode:
    answer = host.ask(heartbeat(member))
    assert isinstance(answer, HeartbeatAnswer)
    return answer.error


def upgraded(host: Host) -> tuple[JoinAnswer, Consumer]:
    """A member of each kind, with two partitions each."""
    member, new = classic_member(host), newcomer(host)
    assert new.join().error is ErrorCode.none
    assert error_of_heartbeat(host, member) is ErrorCode.rebalance_in_progress
    member = join_again(host, member)
    kept = share(host, member)
    member = join_again(host, member, owned=kept)
    assert share(host, member) == kept
    new.beat()
    assert (len(kept), len(new.partitions)) == (2, 2)
    return member, new


def test_a_classic_group_becomes_a_consumer_group_and_shares() -> None:
    host = host_with()
    member, _ = upgraded(host)
    assert isinstance(host.coordinator.group(GROUP), ConsumerGroup)
    assert error_of_heartbeat(host, member) is ErrorCode.none
    (described,) = host.coordinator.describe_consumer_groups([GROUP])
    assert {one.member_id: one.speaks_classic for one in described.members} == {member.member_id: True, NEW: False}


def test_when_the_last_of_the_new_ones_goes_it_is_classic_again() -> None:
    host = host_with()
    member, new = upgraded(host)
    assert new.leave().error is ErrorCode.none
    group = host.coordinator.group(GROUP)
    assert isinstance(group, ClassicGroup) and list(group.members) == [member.member_id]
    assert error_of_heartbeat(host, member._replace(generation_id=group.generation_id)) is (
        ErrorCode.rebalance_in_progress
    )
    after = host.failover()
    assert isinstance(after.coordinator.group(GROUP), ClassicGroup)


def test_a_static_classic_member_takes_the_last_place() -> None:
    host = host_with()
    new = newcomer(host, instance_id="place")
    new.join()
    classic = host.ask(join(version=5, instance_id="other"))
    assert isinstance(classic, JoinAnswer) and classic.error is ErrorCode.none
    taken = host.ask(join(version=5, instance_id="place"))
    assert isinstance(taken, JoinAnswer) and taken.error is ErrorCode.none
    group = host.coordinator.group(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.members.keys() == {classic.member_id, taken.member_id}
    assert new.beat().error is ErrorCode.group_id_not_found


def test_an_append_that_fails_leaves_it_what_it_was() -> None:
    host = host_with()
    member, new = upgraded(host)
    host.failing = ErrorCode.not_enough_replicas
    assert new.leave().error is ErrorCode.coordinator_not_available
    host.failing = None
    assert isinstance(host.coordinator.group(GROUP), ConsumerGroup)
    assert new.beat().error is ErrorCode.none
    assert error_of_heartbeat(host, member) is ErrorCode.none


def test_empty_groups_change_whatever_the_policy() -> None:
    host = host_with(MigrationPolicy.DISABLED)
    host.ask(CommitOffsets(9, GROUP, -1, "", None, [TopicOffsets("a", [PartitionOffset(0, 7)])]))
    new = newcomer(host)
    assert new.join().error is ErrorCode.none
    new.leave()
    member = classic_member(host)
    assert error_of_heartbeat(host, member) is ErrorCode.none
    after = host.failover()
    assert isinstance(after.coordinator.group(GROUP), ClassicGroup)
    assert error_of_heartbeat(after, member) is ErrorCode.none


@pytest.mark.parametrize(
    ("policy", "goes_up", "goes_down"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True, True),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.DISABLED, False, False),
    ],
)
def test_the_policy_decides(policy: MigrationPolicy, goes_up: bool, goes_down: bool) -> None:
    host = host_with(policy)
    classic_member(host)
    answer = newcomer(host).join()
    assert (answer.error is ErrorCode.none) == goes_up
    if not goes_up:
        assert answer == ConsumerGroupHeartbeatAnswer(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled.",
        )
    other = host_with(policy)
    new = newcomer(other)
    new.join()
    classic = other.ask(join(version=5, instance_id="static"))
    assert isinstance(classic, JoinAnswer)
    if policy is MigrationPolicy.DISABLED:
        assert classic.error is ErrorCode.inconsistent_group_protocol
        return
    new.leave()
    assert isinstance(other.coordinator.group(GROUP), ClassicGroup) == goes_down


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        (lambda: b"\xff\xff", ErrorCode.group_id_not_found),
        (lambda: b"not an assignment", ErrorCode.group_id_not_found),
        (lambda: write_assignment([("a", [0])], 1)[:-4] + b"\0\0\0\1!", ErrorCode.group_id_not_found),
        (lambda: write_assignment([("a", [0, 99])], 1), ErrorCode.unknown_server_error),
        (lambda: write_assignment([("gone", [0])], 1), ErrorCode.none),
    ],
)
def test_assignments_that_cannot_be_taken_over(assignment: Callable[[], bytes], error: ErrorCode) -> None:
    host = host_with()
    token = host.send(join(given_id(host)))
    host.commit()
    host.pass_time(2 * host.settings.initial_rebalance_delay_ms)
    member = joined(host, token)
    host.ask(sync(member, {member.member_id: assignment()}))
    assert newcomer(host).join().error is error
    is_upgraded = isinstance(host.coordinator.group(GROUP), ConsumerGroup)
    assert is_upgraded == (error is ErrorCode.none)


UNREADABLE = MemberProtocol("a", b"")


def upgraded_with_one_who_hides(host: Host, **newcomers: object) -> tuple[JoinAnswer, JoinAnswer]:
    """A classic member that prefers what is no consumer's protocol, in a group that had agreed on another's."""
    told = ((UNREADABLE, *protocols("b")), protocols("b"))
    tokens = [host.send(join(given_id(host, protocols=one), protocols=one)) for one in told]
    host.commit()
    host.pass_time(2 * host.settings.initial_rebalance_delay_ms)
    hiding, other = (joined(host, token) for token in tokens)
    leader = hiding if hiding.leader == hiding.member_id else other
    host.ask(sync(leader, {one.member_id: write_assignment([("a", ())], 1) for one in (hiding, other)}))
    assert newcomer(host, **newcomers).join().error is ErrorCode.none
    return hiding, other


def test_who_hides_what_it_wants_is_refused_when_it_syncs() -> None:
    host = host_with()
    # An expression that is not resolved yet calls for no assignment: all are where they were.
    hiding, _ = upgraded_with_one_who_hides(host, topics=None, regex="a.*")
    answer = host.ask(sync(hiding, protocol_type=None, protocol_name=None))
    assert answer == SyncAnswer(ErrorCode.unknown_server_error)


def test_a_group_that_cannot_become_a_classic_one_stays_what_it_is_when_a_session_ends() -> None:
    host = host_with()
    hiding, other = upgraded_with_one_who_hides(host)
    host.ask(leave(other.member_id))
    for _ in range(10):
        host.pass_time(5_000)
        host.ask(heartbeat(hiding))
    group = host.coordinator.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == [hiding.member_id]
