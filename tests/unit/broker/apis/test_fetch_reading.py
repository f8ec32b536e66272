"""Reads for followers in a thread while the event loop runs."""

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.broker.apis import fetch as fetch_api
from odradek.broker.apis.fetch_reading import FindIn, Found, Reader, find_waiting, read_all
from odradek.broker.fetch_sessions import FetchContext, FetchTarget, PartitionKey
from odradek.core.replication.follower import FollowerState
from odradek.records.batch import parse_batches
from odradek.server.context import RequestContext
from odradek.storage.log.reading import LogRange
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import FollowerFetch, Partition
from odradek.wire.schemas import schema
from tests.record_batches import TestRecord, batch
from tests.unit.broker.fake_broker import NODE_ID, FakeBroker, with_followers

FETCH, VERSION = 1, 12
FOLLOWER = FollowerFetch(2, 1)
BY_FOLLOWER = Reader(
    1 << 20, 1, 0.0, committed_only=False, follower=FOLLOWER, needs_leader=True, rack="", serves_consumers=False
)
CONTEXT = RequestContext(FETCH, VERSION, "test", "PLAINTEXT", "127.0.0.1", schema(FETCH, VERSION))


def led_with_three_records(broker: FakeBroker) -> Partition:
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    partition.become_leader(NODE_ID, 1, with_followers(partition, 1, min_isr=1))
    for value in (b"one", b"two", b"three"):
        broker.append("orders", TestRecord(value))
    return partition


def test_fetch_does_not_return_records_of_a_later_leader(broker: FakeBroker) -> None:
    """The follower would append them after records that the later leader has truncated."""
    partition = led_with_three_records(broker)

    async def another_leads() -> None:
        follower = FollowerState(
            leader_id=3,
            leader_epoch=2,
            high_watermark=partition.shared_high_watermark,
            backoff_max_seconds=1.0,
        )
        partition.become_follower(3, 2, follower)
        assert await partition.truncate(2, 1, fully=False)
        for offset in (1, 2):
            data = batch(TestRecord(b"other"), base_offset=offset, leader_epoch=2)
            assert await partition.replicate(2, data, parse_batches(data))

    def read(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRange | None:
        asyncio.run(another_leads())
        return find_waiting(partition, offset, max_bytes, end, min_one)

    target = FetchTarget(PartitionKey(ZERO_UUID, "orders", 0), 2, 1 << 20, 1, 1, 0, topic="orders")
    fetch = FetchContext(None, [target], incremental=False, uses_topic_ids=False)
    ((_, fetched),) = read_all(fetch, BY_FOLLOWER, CONTEXT, broker, read).results
    assert fetched.error is ErrorCode.fenced_leader_epoch
    assert not fetched.records


def test_disk_failure_of_a_read_is_reported_for_the_old_log_dir(broker: FakeBroker) -> None:
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    first, second = broker.directories

    def read(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRange | None:
        partition.relocate(partition.log, LogDirThreads(second, broker.executor))
        raise OSError(5, "Input/output error")

    target = FetchTarget(PartitionKey(ZERO_UUID, "orders", 0), 0, 1 << 20, -1, -1, 0, topic="orders")
    fetch = FetchContext(None, [target], incremental=False, uses_topic_ids=False)
    reader = BY_FOLLOWER._replace(follower=None)
    ((directory, _),) = read_all(fetch, reader, CONTEXT, broker, read).broken_disks
    assert directory == first


def test_returning_follower_learns_the_log_start_immediately(broker: FakeBroker) -> None:
    """It may lead soon, so it learns the log start immediately, but only once."""
    partition = led_with_three_records(broker)
    partition.log.advance_log_start(2)

    def found(log_start_offset: int, sent: int = -1, reader: Reader = BY_FOLLOWER) -> tuple[bool, int]:
        key = PartitionKey(ZERO_UUID, "orders", 0)
        target = FetchTarget(key, 3, 1 << 20, 1, -1, log_start_offset, topic="orders")
        target.sent_log_start_offset = sent
        read = read_all(
            FetchContext(None, [target], incremental=False, uses_topic_ids=False), reader, CONTEXT, broker, find_waiting
        )
        return read.is_urgent, read.results[0][1].log_start_offset

    assert found(1) == (True, 2)
    assert found(2) == (False, 2)
    assert found(1, sent=2) == (False, 2)
    # Old versions do not send it.
    assert found(-1) == (False, 2)
    assert found(1, reader=BY_FOLLOWER._replace(follower=None))[0] is False


def test_truncated_follower_learns_the_log_start_again(broker: FakeBroker) -> None:
    """It has ignored the offsets of the response that reported the divergence."""
    partition = led_with_three_records(broker)
    partition.log.advance_log_start(2)
    target = FetchTarget(PartitionKey(ZERO_UUID, "orders", 0), 4, 1 << 20, 1, 1, 0, topic="orders")
    fetch = FetchContext(None, [target], incremental=True, uses_topic_ids=False)

    def found() -> Found:
        return read_all(fetch, BY_FOLLOWER, CONTEXT, broker, find_waiting)

    diverging = found()
    assert diverging.results[0][1].diverging is not None
    fetch_api._respond(fetch, diverging, BY_FOLLOWER, CONTEXT, broker)
    target.fetch_offset = 3
    assert found().is_urgent
    fetch_api._respond(fetch, found(), BY_FOLLOWER, CONTEXT, broker)
    assert not found().is_urgent


@pytest.mark.parametrize("follows", [True, False])
def test_next_request_ends_the_long_poll_of_a_follower_only(broker: FakeBroker, follows: bool) -> None:
    """The follower wants to fetch another partition, which must not wait for this one."""
    partition = led_with_three_records(broker)

    async def scenario() -> None:
        reader = BY_FOLLOWER._replace(max_wait_seconds=60.0, follower=FOLLOWER if follows else None)
        offset = 3 if follows else partition.high_watermark
        target = FetchTarget(PartitionKey(ZERO_UUID, "orders", 0), offset, 1 << 20, 1, 1, 0, topic="orders")
        fetch = FetchContext(None, [target], incremental=False, uses_topic_ids=False)
        poll = fetch_api._LongPoll(fetch, reader, CONTEXT, broker)
        poll.start(read_all(fetch, reader, CONTEXT, broker, find_waiting))
        assert not poll.is_done
        poll.on_next_request()
        assert poll.is_done == follows
        if follows:
            response, _ = CONTEXT.schema.read_response(b"".join(poll.result), 0)
            (topic,) = response.responses
            assert [(one.partition_index, one.records) for one in topic.partitions] == [(0, b"")]
        poll.cancel()

    asyncio.run(scenario())


def test_search_in_a_thread_does_not_read_the_transaction_index_of_another_log_dir(broker: FakeBroker) -> None:
    """The disk of the other log dir may hang, and only its own threads may wait for it."""
    partition = led_with_three_records(broker)
    index = partition.log.active_segment.transaction_index
    # As after a restart: read on first use.
    index._entries = None
    reader = BY_FOLLOWER._replace(follower=None, committed_only=True, needs_leader=False)
    target = FetchTarget(PartitionKey(ZERO_UUID, "orders", 0), 0, 1 << 20, -1, -1, 0, topic="orders")
    fetch = FetchContext(None, [target], incremental=False, uses_topic_ids=False)
    first, second = broker.directories
    assert partition.log_dir == first
    assert read_all(fetch, reader, CONTEXT, broker, FindIn({second})).uncached_in == first
    assert not index.is_loaded
    assert read_all(fetch, reader, CONTEXT, broker, FindIn({second, first})).uncached_in is None
    assert index.is_loaded
