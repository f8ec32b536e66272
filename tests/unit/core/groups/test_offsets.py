"""Offsets: visibility, permission to commit, expiry, and transactions."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsetsInTransaction,
    CommitResponse,
    DeleteGroups,
    DeleteGroupsResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    PartitionOffset,
    TopicOffsets,
    TopicPartitions,
)
from odradek.core.groups.records import GroupMetadataKey, OffsetCommitValue
from odradek.core.groups.settings import GroupSettings
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness
from tests.unit.core.groups.members import GROUP, SESSION_MS, commit, heartbeat, join, leave, stable_group

RETENTION_MS = 60_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS)


def fetched(
    harness: CoordinatorHarness, *, require_stable: bool = False, group_id: str = GROUP
) -> dict[tuple[str, int], object]:
    """Offset of everything that the group has committed, or the error instead."""
    token = harness.send(FetchOffsets(group_id, None, require_stable))
    response = harness.responses[token]
    assert isinstance(response, FetchOffsetsResponse)
    return {
        (topic.topic, one.partition): one.offset if one.error is ErrorCode.none else one.error
        for topic in response.topics
        for one in topic.partitions
    }


def errors(harness: CoordinatorHarness, token: int) -> list[ErrorCode]:
    response = harness.responses[token]
    assert isinstance(response, CommitResponse)
    return [one.error for topic in response.topics for one in topic.partitions]


def commit_in_transaction(producer_id: int, offset: int) -> CommitOffsetsInTransaction:
    topics = [TopicOffsets("a", [PartitionOffset(0, offset)])]
    return CommitOffsetsInTransaction(GROUP, -1, "", None, producer_id, 0, topics)


def expire(harness: CoordinatorHarness) -> None:
    harness.take(harness.coordinator.expire_offsets(harness.now_ms))
    harness.commit()


# ---- commit and fetch


def test_uncommitted_offset_is_not_visible() -> None:
    harness = CoordinatorHarness()
    token = harness.send(commit(None, 5))
    assert token not in harness.responses
    assert fetched(harness) == {}
    harness.commit()
    assert errors(harness, token) == [ErrorCode.none]
    harness.send(commit(None, 6))
    harness.send(commit(None, 7))
    assert fetched(harness) == {("a", 0): 5}
    harness.commit()
    assert fetched(harness) == {("a", 0): 7}


def test_stable_fetch_waits_for_uncommitted_offsets() -> None:
    harness = CoordinatorHarness()
    harness.send(commit(None, 5))
    token = harness.send(FetchOffsets(GROUP, [TopicPartitions("a", [0])], require_stable=True))
    assert token not in harness.responses
    harness.commit()
    response = harness.responses[token]
    assert isinstance(response, FetchOffsetsResponse)
    assert response.topics[0].partitions[0].offset == 5


def test_uncommitted_offset_is_lost_after_a_failover() -> None:
    harness = CoordinatorHarness()
    harness.execute(commit(None, 5))
    harness.send(commit(None, 6))
    assert fetched(harness.failover()) == {("a", 0): 5}


@pytest.mark.parametrize(
    ("error", "rejection"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_failed_offset_write_is_rejected_and_discarded(error: ErrorCode, rejection: ErrorCode) -> None:
    harness = CoordinatorHarness()
    harness.execute(commit(None, 5))
    harness.failing = error
    assert errors(harness, harness.send(commit(None, 6))) == [rejection]
    harness.execute(DeleteGroups([GROUP]))
    harness.failing = None
    harness.commit()
    assert fetched(harness) == {("a", 0): 5}
    assert len(harness.coordinator.list_groups()) == 1


def test_stale_generation_cannot_commit() -> None:
    harness = CoordinatorHarness()
    member = stable_group(harness, 1)[0]
    assert errors(harness, harness.send(commit(member, 5, generation_id=0))) == [ErrorCode.illegal_generation]
    assert errors(harness, harness.send(commit(member, 5, generation_id=2))) == [ErrorCode.illegal_generation]
    assert errors(harness, harness.send(commit(member, 5, member_id="nobody"))) == [ErrorCode.unknown_member_id]
    assert errors(harness, harness.send(commit(None, 5))) == [ErrorCode.unknown_member_id]
    harness.send(join(member.member_id))
    assert errors(harness, harness.send(commit(member, 5, generation_id=2))) == [ErrorCode.rebalance_in_progress]
    harness.commit()
    assert fetched(harness) == {}


def test_unknown_group_rejects_generations() -> None:
    harness = CoordinatorHarness()
    assert errors(harness, harness.send(commit(None, 5, generation_id=3, version=8))) == [ErrorCode.illegal_generation]
    assert errors(harness, harness.send(commit(None, 5, generation_id=3, version=9))) == [ErrorCode.group_id_not_found]
    assert harness.coordinator.list_groups() == ()


def test_commit_renews_the_session() -> None:
    harness = CoordinatorHarness()
    member = stable_group(harness, 1)[0]
    for _ in range(4):
        harness.pass_time(SESSION_MS - 1)
        harness.execute(commit(member, 5))
    assert harness.execute(heartbeat(member)).error is ErrorCode.none  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("metadata", "is_taken"), [("x" * 8, True), ("x" * 9, False), ("💡" * 4, True), ("💡" * 5, False)]
)
def test_offset_metadata_is_limited_in_utf_16_units(metadata: str, is_taken: bool) -> None:
    harness = CoordinatorHarness(GroupSettings(offset_metadata_max_bytes=8))
    offsets = [PartitionOffset(0, 5, metadata=metadata), PartitionOffset(1, 6)]
    token = harness.send(commit(None, 5, topics=[TopicOffsets("a", offsets)]))
    harness.commit()
    assert errors(harness, token) == [
        ErrorCode.none if is_taken else ErrorCode.offset_metadata_too_large,
        ErrorCode.none,
    ]
    assert fetched(harness) == ({("a", 0): 5, ("a", 1): 6} if is_taken else {("a", 1): 6})


# ---- deletion


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    harness = CoordinatorHarness()
    member = stable_group(harness, 1)[0]
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("b", [PartitionOffset(0, 2)])]
    harness.execute(commit(member, 0, topics=topics))
    response = harness.execute(DeleteOffsets(GROUP, [TopicPartitions("a", [0]), TopicPartitions("b", [0, 9])]))
    assert isinstance(response, DeleteOffsetsResponse)
    assert [one.error for topic in response.topics for one in topic.partitions] == [
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.none,
        ErrorCode.none,
    ]
    assert fetched(harness) == {("a", 0): 1}


def test_empty_group_is_deleted_with_its_offsets() -> None:
    harness = CoordinatorHarness()
    member = stable_group(harness, 1)[0]
    harness.execute(commit(member, 5))
    harness.execute(commit_in_transaction(7, 8))
    assert harness.execute(DeleteGroups([GROUP, "absent"])) == DeleteGroupsResponse(
        ((GROUP, ErrorCode.non_empty_group), ("absent", ErrorCode.group_id_not_found))
    )
    harness.execute(leave(member.member_id))
    assert harness.execute(DeleteGroups([GROUP])) == DeleteGroupsResponse(((GROUP, ErrorCode.none),))
    harness.end_transaction(7, commits=True)
    harness.commit()
    assert fetched(harness) == {}
    assert harness.coordinator.list_groups() == harness.failover().coordinator.list_groups() == ()


def test_offsets_of_deleted_topics_are_deleted() -> None:
    harness = CoordinatorHarness()
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("b", [PartitionOffset(0, 2)])]
    harness.execute(commit(None, 0, topics=topics))
    harness.execute(commit_in_transaction(7, 8))
    harness.take(harness.coordinator.on_topics_deleted({"a": UUID(int=1)}))
    harness.end_transaction(7, commits=True)
    harness.commit()
    assert fetched(harness) == {("b", 0): 2}


def test_recreated_topic_has_its_own_offsets() -> None:
    harness = CoordinatorHarness()
    old, new = UUID(int=1), UUID(int=2)
    harness.execute(commit(None, 0, topics=[TopicOffsets("a", [PartitionOffset(0, 1), PartitionOffset(1, 1)], old)]))
    harness.execute(commit(None, 0, topics=[TopicOffsets("a", [PartitionOffset(1, 2)], new)]))
    for topic_id, offsets in ((old, [1, -1]), (new, [-1, 2]), (None, [1, 2])):
        response = harness.execute(FetchOffsets(GROUP, [TopicPartitions("a", [0, 1], topic_id)]))
        assert isinstance(response, FetchOffsetsResponse)
        assert [one.offset for one in response.topics[0].partitions] == offsets
    harness.take(harness.coordinator.on_topics_deleted({"a": old}))
    harness.commit()
    assert fetched(harness) == {("a", 1): 2}


# ---- expiry


def test_offsets_of_a_simple_group_expire_since_their_commit() -> None:
    harness = CoordinatorHarness(SETTINGS)
    harness.execute(commit(None, 5))
    harness.pass_time(RETENTION_MS - 1)
    expire(harness)
    assert fetched(harness) == {("a", 0): 5}
    harness.pass_time(1)
    expire(harness)
    assert fetched(harness) == {}
    assert harness.coordinator.list_groups() == ()


def test_offsets_expire_since_the_group_became_empty() -> None:
    harness = CoordinatorHarness(SETTINGS)
    member = stable_group(harness, 1)[0]
    harness.execute(commit(member, 5))
    for _ in range(2 * RETENTION_MS // 5_000):
        harness.pass_time(5_000)
        harness.send(heartbeat(member))
    expire(harness)
    assert fetched(harness) == {("a", 0): 5}, "it is subscribed to"
    harness.execute(leave(member.member_id))
    harness.pass_time(RETENTION_MS - 1)
    expire(harness.failover())
    expire(harness)
    assert fetched(harness) == {("a", 0): 5}
    harness.pass_time(1)
    expire(harness)
    assert fetched(harness) == {}
    assert harness.appended[-1].key == GroupMetadataKey(group=GROUP)
    assert harness.appended[-1].value is None


def test_offsets_of_unsubscribed_topics_expire_in_an_active_group() -> None:
    harness = CoordinatorHarness(SETTINGS)
    member = stable_group(harness, 1)[0]
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("left", [PartitionOffset(0, 2)])]
    harness.execute(commit(member, 0, topics=topics))
    for _ in range(RETENTION_MS // 5_000):
        harness.pass_time(5_000)
        harness.send(heartbeat(member))
    expire(harness)
    assert fetched(harness) == {("a", 0): 1}


def test_retention_of_old_clients_overrides_the_config() -> None:
    harness = CoordinatorHarness(SETTINGS)
    harness.execute(commit(None, 5, version=4, retention_ms=1_000))
    value = harness.appended[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.expire_timestamp, harness.appended[-1].version) == (1_000, 1)
    successor = harness.failover()
    successor.pass_time(1_000)
    expire(successor)
    assert fetched(successor) == {}


def test_group_with_an_open_transaction_does_not_expire() -> None:
    harness = CoordinatorHarness(SETTINGS)
    harness.execute(commit_in_transaction(7, 8))
    harness.pass_time(10 * RETENTION_MS)
    expire(harness)
    assert len(harness.coordinator.list_groups()) == 1
    harness.end_transaction(7, commits=True)
    harness.commit()
    assert fetched(harness) == {("a", 0): 8}


# ---- transactions


@pytest.mark.parametrize("commits", [True, False])
def test_transactional_offsets_are_visible_after_the_commit_marker(commits: bool) -> None:
    harness = CoordinatorHarness()
    harness.execute(commit(None, 5))
    harness.execute(commit_in_transaction(7, 8))
    assert fetched(harness) == {("a", 0): 5}
    assert fetched(harness, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    harness = harness.failover()
    assert fetched(harness, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    harness.end_transaction(7, commits=commits)
    assert fetched(harness) == {("a", 0): 5}
    harness.commit()
    assert fetched(harness, require_stable=True) == {("a", 0): 8 if commits else 5}
    assert fetched(harness.failover()) == {("a", 0): 8 if commits else 5}


def test_later_commit_wins_over_a_transactional_offset() -> None:
    harness = CoordinatorHarness()
    harness.execute(commit_in_transaction(7, 8))
    harness.execute(commit(None, 9))
    harness.end_transaction(7, commits=True)
    harness.commit()
    assert fetched(harness) == {("a", 0): 9}


def test_each_transaction_ends_its_own_offsets() -> None:
    harness = CoordinatorHarness()
    harness.execute(commit_in_transaction(7, 70))
    harness.execute(commit_in_transaction(8, 80))
    harness.end_transaction(8, commits=True)
    harness.commit()
    assert fetched(harness, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    harness.end_transaction(8, commits=False)
    harness.end_transaction(7, commits=True)
    harness.commit()
    assert fetched(harness) == {("a", 0): 80}, "what 7 has committed lies before it in the log"


def test_transactional_commit_of_a_stale_generation_is_rejected() -> None:
    harness = CoordinatorHarness()
    member = stable_group(harness, 1)[0]
    stale = commit_in_transaction(7, 8)._replace(generation_id=0, member_id=member.member_id)
    assert errors(harness, harness.send(stale)) == [ErrorCode.illegal_generation]
    unknown = stale._replace(generation_id=1, member_id="nobody")
    assert errors(harness, harness.send(unknown)) == [ErrorCode.unknown_member_id]
    assert errors(harness, harness.send(stale._replace(group_id=""))) == [ErrorCode.invalid_group_id]
