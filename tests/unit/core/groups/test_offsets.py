"""Offsets: what is committed when, who may commit, what expires, and transactions."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitAnswer,
    CommitOffsetsInTransaction,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    FetchAnswer,
    FetchOffsets,
    PartitionOffset,
    TopicOffsets,
    TopicPartitions,
)
from odradek.core.groups.records import GroupMetadataKey, OffsetCommitValue
from odradek.core.groups.settings import GroupSettings
from tests.unit.core.groups.host import Host
from tests.unit.core.groups.members import GROUP, SESSION_MS, commit, heartbeat, join, leave, stable_group

RETENTION_MS = 60_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS)


def fetched(host: Host, *, require_stable: bool = False, group_id: str = GROUP) -> dict[tuple[str, int], object]:
    """Offset of everything that the group has committed, or the error instead."""
    token = host.send(FetchOffsets(group_id, None, require_stable))
    answer = host.answers[token]
    assert isinstance(answer, FetchAnswer)
    return {
        (topic.topic, one.partition): one.offset if one.error is ErrorCode.none else one.error
        for topic in answer.topics
        for one in topic.partitions
    }


def errors(host: Host, token: int) -> list[ErrorCode]:
    answer = host.answers[token]
    assert isinstance(answer, CommitAnswer)
    return [one.error for topic in answer.topics for one in topic.partitions]


def commit_in_transaction(producer_id: int, offset: int) -> CommitOffsetsInTransaction:
    topics = [TopicOffsets("a", [PartitionOffset(0, offset)])]
    return CommitOffsetsInTransaction(GROUP, -1, "", None, producer_id, 0, topics)


def expire(host: Host) -> None:
    host.take(host.coordinator.expire_offsets(host.now_ms))
    host.commit()


# ---- commit and fetch


def test_nobody_sees_an_offset_before_it_is_committed_in_the_log() -> None:
    host = Host()
    token = host.send(commit(None, 5))
    assert token not in host.answers
    assert fetched(host) == {}
    host.commit()
    assert errors(host, token) == [ErrorCode.none]
    host.send(commit(None, 6))
    host.send(commit(None, 7))
    assert fetched(host) == {("a", 0): 5}
    host.commit()
    assert fetched(host) == {("a", 0): 7}


def test_who_asks_for_what_is_stable_waits_for_the_log() -> None:
    host = Host()
    host.send(commit(None, 5))
    token = host.send(FetchOffsets(GROUP, [TopicPartitions("a", [0])], require_stable=True))
    assert token not in host.answers
    host.commit()
    answer = host.answers[token]
    assert isinstance(answer, FetchAnswer)
    assert answer.topics[0].partitions[0].offset == 5


def test_what_was_not_committed_is_not_there_after_a_failover() -> None:
    host = Host()
    host.ask(commit(None, 5))
    host.send(commit(None, 6))
    assert fetched(host.failover()) == {("a", 0): 5}


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_what_cannot_be_written_is_refused_and_forgotten(error: ErrorCode, refusal: ErrorCode) -> None:
    host = Host()
    host.ask(commit(None, 5))
    host.failing = error
    assert errors(host, host.send(commit(None, 6))) == [refusal]
    host.ask(DeleteGroups([GROUP]))
    host.failing = None
    host.commit()
    assert fetched(host) == {("a", 0): 5}
    assert len(host.coordinator.list_groups()) == 1


def test_a_stale_generation_cannot_commit() -> None:
    host = Host()
    member = stable_group(host, 1)[0]
    assert errors(host, host.send(commit(member, 5, generation_id=0))) == [ErrorCode.illegal_generation]
    assert errors(host, host.send(commit(member, 5, generation_id=2))) == [ErrorCode.illegal_generation]
    assert errors(host, host.send(commit(member, 5, member_id="nobody"))) == [ErrorCode.unknown_member_id]
    assert errors(host, host.send(commit(None, 5))) == [ErrorCode.unknown_member_id]
    host.send(join(member.member_id))
    assert errors(host, host.send(commit(member, 5, generation_id=2))) == [ErrorCode.rebalance_in_progress]
    host.commit()
    assert fetched(host) == {}


def test_a_group_that_is_not_there_has_no_generations() -> None:
    host = Host()
    assert errors(host, host.send(commit(None, 5, generation_id=3, version=8))) == [ErrorCode.illegal_generation]
    assert errors(host, host.send(commit(None, 5, generation_id=3, version=9))) == [ErrorCode.group_id_not_found]
    assert host.coordinator.list_groups() == ()


def test_a_commit_is_a_sign_of_life() -> None:
    host = Host()
    member = stable_group(host, 1)[0]
    for _ in range(4):
        host.pass_time(SESSION_MS - 1)
        host.ask(commit(member, 5))
    assert host.ask(heartbeat(member)).error is ErrorCode.none  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("metadata", "is_taken"), [("x" * 8, True), ("x" * 9, False), ("💡" * 4, True), ("💡" * 5, False)]
)
def test_metadata_is_limited_in_utf_16_units(metadata: str, is_taken: bool) -> None:
    host = Host(GroupSettings(offset_metadata_max_bytes=8))
    offsets = [PartitionOffset(0, 5, metadata=metadata), PartitionOffset(1, 6)]
    token = host.send(commit(None, 5, topics=[TopicOffsets("a", offsets)]))
    host.commit()
    assert errors(host, token) == [ErrorCode.none if is_taken else ErrorCode.offset_metadata_too_large, ErrorCode.none]
    assert fetched(host) == ({("a", 0): 5, ("a", 1): 6} if is_taken else {("a", 1): 6})


# ---- deletion


def test_what_is_read_by_a_member_is_not_deleted() -> None:
    host = Host()
    member = stable_group(host, 1)[0]
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("b", [PartitionOffset(0, 2)])]
    host.ask(commit(member, 0, topics=topics))
    answer = host.ask(DeleteOffsets(GROUP, [TopicPartitions("a", [0]), TopicPartitions("b", [0, 9])]))
    assert isinstance(answer, DeleteOffsetsAnswer)
    assert [one.error for topic in answer.topics for one in topic.partitions] == [
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.none,
        ErrorCode.none,
    ]
    assert fetched(host) == {("a", 0): 1}


def test_a_group_is_deleted_with_its_offsets_if_it_is_empty() -> None:
    host = Host()
    member = stable_group(host, 1)[0]
    host.ask(commit(member, 5))
    host.ask(commit_in_transaction(7, 8))
    assert host.ask(DeleteGroups([GROUP, "absent"])) == DeleteGroupsAnswer(
        ((GROUP, ErrorCode.non_empty_group), ("absent", ErrorCode.group_id_not_found))
    )
    host.ask(leave(member.member_id))
    assert host.ask(DeleteGroups([GROUP])) == DeleteGroupsAnswer(((GROUP, ErrorCode.none),))
    host.end_transaction(7, commits=True)
    host.commit()
    assert fetched(host) == {}
    assert host.coordinator.list_groups() == host.failover().coordinator.list_groups() == ()


def test_offsets_of_deleted_topics_go() -> None:
    host = Host()
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("b", [PartitionOffset(0, 2)])]
    host.ask(commit(None, 0, topics=topics))
    host.ask(commit_in_transaction(7, 8))
    host.take(host.coordinator.topics_deleted({"a": UUID(int=1)}))
    host.end_transaction(7, commits=True)
    host.commit()
    assert fetched(host) == {("b", 0): 2}


def test_offsets_of_a_topic_made_again_are_its_own() -> None:
    host = Host()
    old, new = UUID(int=1), UUID(int=2)
    host.ask(commit(None, 0, topics=[TopicOffsets("a", [PartitionOffset(0, 1), PartitionOffset(1, 1)], old)]))
    host.ask(commit(None, 0, topics=[TopicOffsets("a", [PartitionOffset(1, 2)], new)]))
    for topic_id, offsets in ((old, [1, -1]), (new, [-1, 2]), (None, [1, 2])):
        answer = host.ask(FetchOffsets(GROUP, [TopicPartitions("a", [0, 1], topic_id)]))
        assert isinstance(answer, FetchAnswer)
        assert [one.offset for one in answer.topics[0].partitions] == offsets
    host.take(host.coordinator.topics_deleted({"a": old}))
    host.commit()
    assert fetched(host) == {("a", 1): 2}


# ---- expiry


def test_offsets_of_nobody_expire_since_their_commit() -> None:
    host = Host(SETTINGS)
    host.ask(commit(None, 5))
    host.pass_time(RETENTION_MS - 1)
    expire(host)
    assert fetched(host) == {("a", 0): 5}
    host.pass_time(1)
    expire(host)
    assert fetched(host) == {}
    assert host.coordinator.list_groups() == ()


def test_offsets_of_a_group_expire_since_it_became_empty() -> None:
    host = Host(SETTINGS)
    member = stable_group(host, 1)[0]
    host.ask(commit(member, 5))
    for _ in range(2 * RETENTION_MS // 5_000):
        host.pass_time(5_000)
        host.send(heartbeat(member))
    expire(host)
    assert fetched(host) == {("a", 0): 5}, "it is subscribed to"
    host.ask(leave(member.member_id))
    host.pass_time(RETENTION_MS - 1)
    expire(host.failover())
    expire(host)
    assert fetched(host) == {("a", 0): 5}
    host.pass_time(1)
    expire(host)
    assert fetched(host) == {}
    assert host.appended[-1].key == GroupMetadataKey(group=GROUP)
    assert host.appended[-1].value is None


def test_what_a_living_group_no_longer_reads_expires() -> None:
    host = Host(SETTINGS)
    member = stable_group(host, 1)[0]
    topics = [TopicOffsets("a", [PartitionOffset(0, 1)]), TopicOffsets("left", [PartitionOffset(0, 2)])]
    host.ask(commit(member, 0, topics=topics))
    for _ in range(RETENTION_MS // 5_000):
        host.pass_time(5_000)
        host.send(heartbeat(member))
    expire(host)
    assert fetched(host) == {("a", 0): 1}


def test_old_clients_say_themselves_how_long() -> None:
    host = Host(SETTINGS)
    host.ask(commit(None, 5, version=4, retention_ms=1_000))
    value = host.appended[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.expire_timestamp, host.appended[-1].version) == (1_000, 1)
    successor = host.failover()
    successor.pass_time(1_000)
    expire(successor)
    assert fetched(successor) == {}


def test_an_open_transaction_keeps_its_group() -> None:
    host = Host(SETTINGS)
    host.ask(commit_in_transaction(7, 8))
    host.pass_time(10 * RETENTION_MS)
    expire(host)
    assert len(host.coordinator.list_groups()) == 1
    host.end_transaction(7, commits=True)
    host.commit()
    assert fetched(host) == {("a", 0): 8}


# ---- transactions


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_wait_for_its_end(commits: bool) -> None:
    host = Host()
    host.ask(commit(None, 5))
    host.ask(commit_in_transaction(7, 8))
    assert fetched(host) == {("a", 0): 5}
    assert fetched(host, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    host = host.failover()
    assert fetched(host, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    host.end_transaction(7, commits=commits)
    assert fetched(host) == {("a", 0): 5}
    host.commit()
    assert fetched(host, require_stable=True) == {("a", 0): 8 if commits else 5}
    assert fetched(host.failover()) == {("a", 0): 8 if commits else 5}


def test_who_committed_after_the_transaction_did_keeps_its_offset() -> None:
    host = Host()
    host.ask(commit_in_transaction(7, 8))
    host.ask(commit(None, 9))
    host.end_transaction(7, commits=True)
    host.commit()
    assert fetched(host) == {("a", 0): 9}


def test_of_two_transactions_each_ends_its_own() -> None:
    host = Host()
    host.ask(commit_in_transaction(7, 70))
    host.ask(commit_in_transaction(8, 80))
    host.end_transaction(8, commits=True)
    host.commit()
    assert fetched(host, require_stable=True) == {("a", 0): ErrorCode.unstable_offset_commit}
    host.end_transaction(8, commits=False)
    host.end_transaction(7, commits=True)
    host.commit()
    assert fetched(host) == {("a", 0): 80}, "what 7 has committed lies before it in the log"


def test_a_transaction_of_a_stale_generation_is_refused() -> None:
    host = Host()
    member = stable_group(host, 1)[0]
    stale = commit_in_transaction(7, 8)._replace(generation_id=0, member_id=member.member_id)
    assert errors(host, host.send(stale)) == [ErrorCode.illegal_generation]
    unknown = stale._replace(generation_id=1, member_id="nobody")
    assert errors(host, host.send(unknown)) == [ErrorCode.unknown_member_id]
    assert errors(host, host.send(stale._replace(group_id=""))) == [ErrorCode.invalid_group_id]
