"""Groups that change from one protocol to the other while they have members."""

from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import ClassicGroup
from odradek.core.groups.commands import (
    CommitOffsets,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinResponse,
    MemberProtocol,
    PartitionOffset,
    SyncResponse,
    TopicOffsets,
)
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.settings import Bounds, GroupSettings, MigrationPolicy
from odradek.core.groups.subscription import read_assignment, write_assignment
from tests.unit.core.groups.cluster import Cluster, Consumer
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness
from tests.unit.core.groups.members import GROUP, given_id, heartbeat, join, joined, leave, protocols, sync

NEW = "speaks-the-other"


def host_with(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> CoordinatorHarness:
    settings = GroupSettings(
        consumer_assignment_interval=Bounds(0, 0, 15_000),
        consumer_session_timeout=Bounds(45_000, 45_000, 60_000),
        consumer_migration_policy=policy,
    )
    return CoordinatorHarness(settings, now_ms=1_000_000, topics=Cluster(a=4))


def classic_member(harness: CoordinatorHarness) -> JoinResponse:
    """The only one of its group, that has all of the topic."""
    token = harness.send(join(given_id(harness)))
    harness.commit()
    harness.pass_time(2 * harness.settings.initial_rebalance_delay_ms)
    response = joined(harness, token)
    harness.execute(sync(response, {response.member_id: write_assignment([("a", range(4))], 1)}))
    return response


def newcomer(harness: CoordinatorHarness, **others: object) -> Consumer:
    return Consumer(harness, NEW, group_id=GROUP, **others)  # type: ignore[arg-type]


def join_again(harness: CoordinatorHarness, member: JoinResponse, owned: list[int] | None = None) -> JoinResponse:
    protocol = protocols()[0]
    if owned is not None:
        subscription = b"\0\1" + protocol.metadata[2:] + write_assignment([("a", owned)], 1)[2:-4]
        protocol = protocol._replace(metadata=subscription)
    response = harness.execute(join(member.member_id, protocols=(protocol,)))
    assert isinstance(response, JoinResponse)
    return response


def share(harness: CoordinatorHarness, member: JoinResponse) -> list[int]:
    response = harness.execute(sync(member))
    assert isinstance(response, SyncResponse) and response.error is ErrorCode.none, response
    return list(read_assignment(response.assignment).partitions.get("a", ()))


def error_of_heartbeat(harness: CoordinatorHarness, member: JoinResponse) -> ErrorCode:
    response = harness.execute(heartbeat(member))
    assert isinstance(response, HeartbeatResponse)
    return response.error


def upgraded(harness: CoordinatorHarness) -> tuple[JoinResponse, Consumer]:
    """A member of each kind, with two partitions each."""
    member, new = classic_member(harness), newcomer(harness)
    assert new.join().error is ErrorCode.none
    assert error_of_heartbeat(harness, member) is ErrorCode.rebalance_in_progress
    member = join_again(harness, member)
    kept = share(harness, member)
    member = join_again(harness, member, owned=kept)
    assert share(harness, member) == kept
    new.beat()
    assert (len(kept), len(new.partitions)) == (2, 2)
    return member, new


def test_classic_group_upgrades_to_a_consumer_group() -> None:
    harness = host_with()
    member, _ = upgraded(harness)
    assert isinstance(harness.coordinator.group(GROUP), ConsumerGroup)
    assert error_of_heartbeat(harness, member) is ErrorCode.none
    (described,) = harness.coordinator.describe_consumer_groups([GROUP])
    assert {one.member_id: one.is_classic for one in described.members} == {
        member.member_id: True,
        NEW: False,
    }


def test_group_downgrades_when_its_last_consumer_leaves() -> None:
    harness = host_with()
    member, new = upgraded(harness)
    assert new.leave().error is ErrorCode.none
    group = harness.coordinator.group(GROUP)
    assert isinstance(group, ClassicGroup) and list(group.members) == [member.member_id]
    assert error_of_heartbeat(harness, member._replace(generation_id=group.generation_id)) is (
        ErrorCode.rebalance_in_progress
    )
    after = harness.failover()
    assert isinstance(after.coordinator.group(GROUP), ClassicGroup)


def test_group_downgrades_when_a_static_classic_member_replaces_its_last_consumer() -> None:
    harness = host_with()
    new = newcomer(harness, instance_id="place")
    new.join()
    classic = harness.execute(join(version=5, instance_id="other"))
    assert isinstance(classic, JoinResponse) and classic.error is ErrorCode.none
    taken = harness.execute(join(version=5, instance_id="place"))
    assert isinstance(taken, JoinResponse) and taken.error is ErrorCode.none
    group = harness.coordinator.group(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.members.keys() == {classic.member_id, taken.member_id}
    assert new.beat().error is ErrorCode.group_id_not_found


def test_failed_conversion_write_keeps_the_group_type() -> None:
    harness = host_with()
    member, new = upgraded(harness)
    harness.failing = ErrorCode.not_enough_replicas
    assert new.leave().error is ErrorCode.coordinator_not_available
    harness.failing = None
    assert isinstance(harness.coordinator.group(GROUP), ConsumerGroup)
    assert new.beat().error is ErrorCode.none
    assert error_of_heartbeat(harness, member) is ErrorCode.none


def test_empty_groups_convert_with_every_policy() -> None:
    harness = host_with(MigrationPolicy.DISABLED)
    harness.execute(CommitOffsets(9, GROUP, -1, "", None, [TopicOffsets("a", [PartitionOffset(0, 7)])]))
    new = newcomer(harness)
    assert new.join().error is ErrorCode.none
    new.leave()
    member = classic_member(harness)
    assert error_of_heartbeat(harness, member) is ErrorCode.none
    after = harness.failover()
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
def test_migration_policy_allows_or_rejects_conversion(policy: MigrationPolicy, goes_up: bool, goes_down: bool) -> None:
    harness = host_with(policy)
    classic_member(harness)
    response = newcomer(harness).join()
    assert (response.error is ErrorCode.none) == goes_up
    if not goes_up:
        assert response == ConsumerGroupHeartbeatResponse(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled.",
        )
    other = host_with(policy)
    new = newcomer(other)
    new.join()
    classic = other.execute(join(version=5, instance_id="static"))
    assert isinstance(classic, JoinResponse)
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
def test_unreadable_assignments_prevent_an_upgrade(assignment: Callable[[], bytes], error: ErrorCode) -> None:
    harness = host_with()
    token = harness.send(join(given_id(harness)))
    harness.commit()
    harness.pass_time(2 * harness.settings.initial_rebalance_delay_ms)
    member = joined(harness, token)
    harness.execute(sync(member, {member.member_id: assignment()}))
    assert newcomer(harness).join().error is error
    is_upgraded = isinstance(harness.coordinator.group(GROUP), ConsumerGroup)
    assert is_upgraded == (error is ErrorCode.none)


UNREADABLE = MemberProtocol("a", b"")


def upgraded_with_unreadable_member(
    harness: CoordinatorHarness, **newcomers: object
) -> tuple[JoinResponse, JoinResponse]:
    """An upgraded group with a classic member whose preferred protocol has unreadable metadata."""
    protocol = ((UNREADABLE, *protocols("b")), protocols("b"))
    tokens = [harness.send(join(given_id(harness, protocols=one), protocols=one)) for one in protocol]
    harness.commit()
    harness.pass_time(2 * harness.settings.initial_rebalance_delay_ms)
    unreadable, other = (joined(harness, token) for token in tokens)
    leader = unreadable if unreadable.leader == unreadable.member_id else other
    harness.execute(sync(leader, {one.member_id: write_assignment([("a", ())], 1) for one in (unreadable, other)}))
    assert newcomer(harness, **newcomers).join().error is ErrorCode.none
    return unreadable, other


def test_sync_with_an_unreadable_subscription_is_rejected() -> None:
    harness = host_with()
    # An expression that is not resolved yet calls for no assignment: all are where they were.
    unreadable, _ = upgraded_with_unreadable_member(harness, topics=None, regex="a.*")
    response = harness.execute(sync(unreadable, protocol_type=None, protocol_name=None))
    assert response == SyncResponse(ErrorCode.unknown_server_error)


def test_group_that_cannot_downgrade_stays_a_consumer_group_when_a_session_expires() -> None:
    harness = host_with()
    unreadable, other = upgraded_with_unreadable_member(harness)
    harness.execute(leave(other.member_id))
    for _ in range(10):
        harness.pass_time(5_000)
        harness.execute(heartbeat(unreadable))
    group = harness.coordinator.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == [unreadable.member_id]
