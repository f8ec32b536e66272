"""Fetch sessions keep the requested partitions and reject invalid session IDs and epochs."""

import random
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchContext,
    FetchSessions,
    FetchTarget,
    PartitionKey,
)


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def target(partition: int, offset: int = 0) -> FetchTarget:
    return FetchTarget(PartitionKey(UUID(int=7), "", partition), offset, 1000, -1, -1, -1)


def key(partition: int) -> PartitionKey:
    return PartitionKey(UUID(int=7), "", partition)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(2, clock, random.Random(1))


def full(sessions: FetchSessions, *partitions: int, privileged: bool = False) -> FetchContext:
    wanted = [target(partition) for partition in partitions]
    return sessions.open(0, INITIAL_EPOCH, wanted, [], uses_topic_ids=True, privileged=privileged)


def test_incremental_fetch_adds_updates_and_forgets_partitions(sessions: FetchSessions) -> None:
    opened = full(sessions, 0, 1)
    assert not opened.incremental
    following = sessions.open(
        opened.session_id, 1, [target(1, 50), target(2)], [key(0)], uses_topic_ids=True, privileged=False
    )
    assert following.incremental
    assert [(t.key.partition, t.fetch_offset) for t in following.targets] == [(1, 50), (2, 0)]


def test_sent_offsets_survive_a_new_fetch_offset(sessions: FetchSessions) -> None:
    opened = full(sessions, 0)
    opened.targets[0].sent_high_watermark = 42
    following = sessions.open(opened.session_id, 1, [target(0, 9)], [], uses_topic_ids=True, privileged=False)
    assert (following.targets[0].fetch_offset, following.targets[0].sent_high_watermark) == (9, 42)


def test_partitions_with_records_rotate_to_the_end(sessions: FetchSessions) -> None:
    opened = full(sessions, 0, 1, 2)
    assert opened.session is not None
    opened.session.rotate([key(0)])
    following = sessions.open(opened.session_id, 1, [], [], uses_topic_ids=True, privileged=False)
    assert [t.key.partition for t in following.targets] == [1, 2, 0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"session_id": 999}, ErrorCode.fetch_session_id_not_found),
        ({"session_epoch": 2}, ErrorCode.invalid_fetch_session_epoch),
        ({"uses_topic_ids": False}, ErrorCode.fetch_session_topic_id_error),
    ],
)
def test_invalid_session_id_and_epoch_are_rejected(
    sessions: FetchSessions, change: dict[str, int], code: ErrorCode
) -> None:
    opened = full(sessions, 0)
    arguments = {"session_id": opened.session_id, "session_epoch": 1, "uses_topic_ids": True, **change}
    with pytest.raises(KafkaError) as refused:
        sessions.open(wanted=[], forgotten=[], privileged=False, **arguments)  # type: ignore[arg-type]
    assert refused.value.code is code


def test_final_epoch_closes_the_session(sessions: FetchSessions) -> None:
    opened = full(sessions, 0)
    ended = sessions.open(opened.session_id, FINAL_EPOCH, [target(0)], [], uses_topic_ids=True, privileged=False)
    assert (ended.session_id, len(sessions)) == (0, 0)


def test_forgetting_all_partitions_closes_the_session(sessions: FetchSessions) -> None:
    opened = full(sessions, 0)
    ended = sessions.open(opened.session_id, 1, [], [key(0)], uses_topic_ids=True, privileged=False)
    assert (ended.session_id, ended.targets, len(sessions)) == (0, [], 0)


def test_epoch_of_a_session_wraps_to_one(sessions: FetchSessions) -> None:
    opened = full(sessions, 0)
    assert opened.session is not None
    opened.session.epoch = 2**31 - 1
    sessions.open(opened.session_id, 2**31 - 1, [], [], uses_topic_ids=True, privileged=False)
    assert opened.session.epoch == 1


def test_full_cache_creates_no_session_until_one_is_old(sessions: FetchSessions, clock: ManualClock) -> None:
    full(sessions, 0)
    full(sessions, 0)
    assert full(sessions, 0).session_id == 0
    clock.seconds += EVICTION_MS / 1000 + 1
    assert full(sessions, 0).session_id != 0
    assert len(sessions) == 2


def test_follower_session_evicts_a_client_session(sessions: FetchSessions) -> None:
    full(sessions, 0)
    full(sessions, 0)
    assert full(sessions, 0, privileged=True).session_id != 0
