import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.ports import Pool
from odradek.broker.replicas import replica_fetcher
from odradek.broker.replicas.replica_fetcher import (
    FETCH_VERSION_MAX,
    LeaderEndpoint,
    ReplicaFetcher,
    parse_checked_batches,
)
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.follower import BACKOFF_FIRST_SECONDS, FollowerState
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.records.batch import CorruptBatch, parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import schema
from tests.unit.broker.fake_broker import FakeBroker

T = TypeVar("T")
MESSAGES = schema(ApiKey.FETCH, FETCH_VERSION_MAX)


def batch(base_offset: int) -> bytes:
    return build_batch([Record(None, b"value", 1)], base_offset=base_offset)


def test_partial_last_batch_is_dropped() -> None:
    whole = batch(0) + batch(1)
    for missing in range(len(batch(2))):
        records, batches = parse_checked_batches(whole + batch(2)[:missing])
        assert records == whole
        assert [one.base_offset for one in batches] == [0, 1]
    assert parse_checked_batches(b"") == (b"", [])


def test_corrupt_batch_is_not_appended() -> None:
    damaged = bytearray(batch(0) + batch(1))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        parse_checked_batches(bytes(damaged))


class HeldThreads:
    """Runs work only when the test allows it."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()
        self.may_run.set()

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await self.may_run.wait()
        return work()


class Leader:
    """Records requests, and responds when the test does."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self.nudges: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    async def request(self, api_key: int, build: Callable[[Any], Any], **_: object) -> Any:
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if api_key == ApiKey.API_VERSIONS:
            self.nudges.put_nowait(response)
        else:
            self.requests.put_nowait((build(MESSAGES), response))
        return await response

    def close(self) -> None:
        """Responses that have arrived can still be read."""


class Stage:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.directory = directory
        self.threads = HeldThreads()
        self.leader = Leader()
        self.truncations: list[tuple[TopicPartition, int]] = []
        # Each connection is a new object with the same behaviour.
        monkeypatch.setattr(replica_fetcher, "Peer", lambda *_, **__: _Link(self.leader))
        self.fetcher = ReplicaFetcher(
            LeaderEndpoint(2, 1, "localhost", 9092),
            FakeBroker(directory).config,
            broker_epoch=lambda: 1,
            throttle=ReplicationThrottle(window_count=11, window_seconds=1.0),
            clock=SystemClock(),
            on_disk_failure=lambda *_: None,
            on_leader_disconnect=lambda _: None,
            on_truncation=self._on_truncation,
            **options,
        )

    async def _on_truncation(self, partition: Partition, offset: int) -> None:
        self.truncations.append((partition.name, offset))

    def partition(self, index: int, **config: str) -> Partition:
        """A follower with one record of an earlier leader."""
        name, topic_id = TopicPartition("orders", index), UUID(int=7)
        log = PartitionLog.open(
            HostDisk(),
            str(self.directory / str(name)),
            topic_partition=name,
            topic_id=topic_id,
            config=TopicConfig.resolve(config),
            now_ms=0,
        )
        data = bytearray(build_batch([Record(None, b"value", 1)]))
        log.append_as_follower(data, parse_batches(data), now_ms=1)
        partition = Partition(
            name,
            topic_id,
            log,
            threads=LogDirThreads(str(self.directory), self.threads),
            clock=SystemClock(),
            on_disk_failure=lambda *_: None,
        )
        follower = FollowerState(
            leader_id=2,
            leader_epoch=1,
            high_watermark=partition.shared_high_watermark,
            backoff_max_seconds=1.0,
        )
        partition.become_follower(2, 1, follower)
        return partition

    async def next_request(self) -> tuple[Any, "asyncio.Future[Any]"]:
        return await asyncio.wait_for(self.leader.requests.get(), 20)


class _Link:
    def __init__(self, leader: Leader) -> None:
        self.request = leader.request
        self.close = leader.close


def test_flush_messages_1_syncs_before_the_next_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a partition added during the sync of others: a Fetch acknowledges."""

    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        both = [stage.partition(index, **{"flush.messages": "1"}) for index in range(2)]
        stage.threads.may_run.clear()
        stage.fetcher.add(both[0])
        await asyncio.sleep(0.01)
        stage.fetcher.add(both[1])
        stage.threads.may_run.set()
        request, _ = await stage.next_request()
        named = {one.partition for topic in request.topics for one in topic.partitions}
        assert named == {0, 1}
        assert [one.log.recovery_point for one in both] == [1, 1]
        await stage.fetcher.stop()

    asyncio.run(scenario())


def empty_response(session_id: int = 7, error: ErrorCode = ErrorCode.none) -> Any:
    return MESSAGES.new(
        "FetchResponse",
        throttle_time=timedelta(0),
        error_code=error,
        session_id=session_id,
        responses=(),
        node_endpoints=(),
    )


def response_of(partition: Partition, **changes: Any) -> Any:
    """A response about one partition."""
    values = {
        "partition_index": partition.name.partition,
        "error_code": ErrorCode.none,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "log_start_offset": 0,
        "diverging_epoch": MESSAGES.new("EpochEndOffset"),
        "current_leader": MESSAGES.new("LeaderIdAndEpoch"),
        "snapshot_id": MESSAGES.new("SnapshotId"),
        "aborted_transactions": (),
        "preferred_read_replica": -1,
        "records": None,
    }
    data = MESSAGES.new("PartitionData", **(values | changes))
    topic = MESSAGES.new("FetchableTopicResponse", topic_id=partition.topic_id, partitions=(data,))
    return replace(empty_response(), responses=(topic,))


def partitions_of(request: Any) -> list[int]:
    return [one.partition for topic in request.topics for one in topic.partitions]


def test_added_partition_joins_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request behind the Fetch ends the leader's long poll, however many partitions are added."""

    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        stage.fetcher.add(stage.partition(0))
        _, response = await stage.next_request()
        response.set_result(empty_response())
        request, response = await stage.next_request()
        assert (request.session_epoch, partitions_of(request)) == (1, [])
        stage.fetcher.add(stage.partition(1))
        stage.fetcher.add(stage.partition(2))
        nudge = await asyncio.wait_for(stage.leader.nudges.get(), 20)
        response.set_result(empty_response())
        nudge.set_result(None)
        request, response = await stage.next_request()
        assert (request.session_id, request.session_epoch) == (7, 2)
        assert sorted(partitions_of(request)) == [1, 2]
        # Also during the next long poll.
        stage.fetcher.add(stage.partition(3))
        (await asyncio.wait_for(stage.leader.nudges.get(), 20)).set_result(None)
        response.set_result(empty_response())
        request, _ = await stage.next_request()
        assert (request.session_epoch, partitions_of(request)) == (3, [3])
        assert stage.leader.nudges.empty()
        await stage.fetcher.stop()

    asyncio.run(scenario())


def test_removed_partition_leaves_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        both = [stage.partition(index) for index in range(2)]
        for partition in both:
            stage.fetcher.add(partition)
        _, response = await stage.next_request()
        stage.fetcher.remove(both[0])
        response.set_result(empty_response())
        request, _ = await stage.next_request()
        assert (request.session_id, request.session_epoch, partitions_of(request)) == (7, 1, [])
        assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(UUID(int=7), (0,))]
        await stage.fetcher.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, 7)],
    ids=lambda value: getattr(value, "name", value),
)
def test_session_error_starts_a_new_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, session_id: int
) -> None:
    """Unless the leader does not know the session, the next Fetch closes it."""

    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        stage.fetcher.add(stage.partition(0))
        _, response = await stage.next_request()
        response.set_result(empty_response())
        _, response = await stage.next_request()
        response.set_result(empty_response(0, error))
        request, _ = await stage.next_request()
        assert (request.session_id, request.session_epoch, partitions_of(request)) == (session_id, 0, [0])
        await stage.fetcher.stop()

    asyncio.run(scenario())


def test_many_partitions_are_added_over_several_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last of them waits for records."""

    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch, added_partitions_max=2)
        for index in range(5):
            stage.fetcher.add(stage.partition(index))
        seen, added = [], []
        for _ in range(4):
            request, response = await stage.next_request()
            added += partitions_of(request)
            seen.append((request.session_epoch, len(partitions_of(request)), request.max_wait.total_seconds()))
            response.set_result(empty_response())
        assert seen == [(0, 2, 0), (1, 2, 0), (2, 1, 0.5), (3, 0, 0.5)]
        assert sorted(added) == [0, 1, 2, 3, 4]
        await stage.fetcher.stop()

    asyncio.run(scenario())


def test_partition_that_backs_off_shortens_the_long_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        both = [stage.partition(index) for index in range(2)]
        for partition in both:
            stage.fetcher.add(partition)
        _, response = await stage.next_request()
        response.set_result(response_of(both[0], error_code=ErrorCode.not_leader_or_follower))
        request, _ = await stage.next_request()
        assert [one.partitions for one in request.forgotten_topics_data] == [(0,)]
        # The first delay.
        assert 0 < request.max_wait.total_seconds() <= BACKOFF_FIRST_SECONDS
        await stage.fetcher.stop()

    asyncio.run(scenario())


def test_truncation_is_reported_before_the_next_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        partition = stage.partition(0)
        stage.fetcher.add(partition)
        _, response = await stage.next_request()
        diverging = MESSAGES.new("EpochEndOffset", epoch=0, end_offset=0)
        response.set_result(response_of(partition, diverging_epoch=diverging))
        await stage.next_request()
        assert partition.log.log_end_offset == 0
        assert stage.truncations == [(partition.name, 0)]
        await stage.fetcher.stop()

    asyncio.run(scenario())
