"""Produce results if the disk fails while the append is published."""

import asyncio
import traceback
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.core.replication.follower import FollowerState
from odradek.records.compression import MAX_DECOMPRESSED_BYTES
from odradek.server.context import RequestContext
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.produce_codec import PartitionRecords, ProduceRequest, TopicRecords
from odradek.wire.schemas import schema
from tests.record_batches import ZSTD, TestRecord, batch, compress
from tests.unit.broker.fake_broker import NODE_ID, FakeBroker, InlineExecutor, with_followers

PRODUCE, VERSION = 0, 9
ALL_ACKS = -1


class UnreadableDisk:
    """A watcher that finds a disk failure when it reads the records."""

    def on_partition_change(self, partition: Partition, added_bytes: int) -> None:
        del partition.end_watchers[self]
        partition.withdraw(ErrorCode.kafka_storage_error)


async def _produce(broker: FakeBroker, acks: int, **header: Any) -> bytes:
    records = PartitionRecords(0, memoryview(bytearray(batch(TestRecord(), **header))))
    request = ProduceRequest(None, acks, 1000, [TopicRecords("orders", None, [records])])
    context = RequestContext(PRODUCE, VERSION, "test", "PLAINTEXT", "127.0.0.1", schema(PRODUCE, VERSION))
    found = load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker)
    if isinstance(found, DeferredResponse):
        return bytes(await found.wait())
    return bytes(await found if isawaitable(found) else found)


def produce(broker: FakeBroker, acks: int) -> ErrorCode:
    return _code(asyncio.run(_produce(broker, acks)))


def _code(data: bytes) -> ErrorCode:
    response, _ = schema(PRODUCE, VERSION).read_response(data, 0)
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


def test_unreplicated_records_are_not_acknowledged(broker: FakeBroker) -> None:
    """Found by the simulator (replicas-crash, seed 1001): the disk failure cleared the leader state, and the request
    did not wait for the ISR."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    partition.become_leader(NODE_ID, 1, with_followers(partition, 1, min_isr=2))
    partition.end_watchers[UnreadableDisk()] = None
    assert produce(broker, ALL_ACKS) is ErrorCode.kafka_storage_error


def test_queued_produce_is_rejected_after_leadership_ends(broker: FakeBroker) -> None:
    """Another broker becomes leader while the append is queued: it must not be appended in the new epoch."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    follower = FollowerState(
        leader_id=2,
        leader_epoch=1,
        high_watermark=partition.shared_high_watermark,
        backoff_max_seconds=1.0,
    )

    async def scenario() -> bytes:
        change = asyncio.ensure_future(
            partition.run_exclusively(lambda: None, lambda _: partition.become_follower(2, 1, follower))
        )
        await asyncio.sleep(0)
        assert partition.is_busy
        found = await _produce(broker, 1)
        await change
        return found

    assert _code(asyncio.run(scenario())) is ErrorCode.not_leader_or_follower
    assert partition.log.log_end_offset == 0


class TestManyPartitions:
    """More than are handled at once, of which one waits for its followers."""

    COUNT = 600
    WAITING = 321

    def _add_topic(self, broker: FakeBroker) -> Partition:
        broker.add_topic("orders", self.COUNT)
        waiting = broker.partition("orders", self.WAITING)
        assert waiting is not None
        waiting.become_leader(NODE_ID, 1, with_followers(waiting, 1, min_isr=1))
        return waiting

    def _start(self, broker: FakeBroker, timeout_ms: int) -> "asyncio.Future[list[bytes]]":
        records = [PartitionRecords(index, memoryview(bytearray(batch(TestRecord())))) for index in range(self.COUNT)]
        request = ProduceRequest(None, ALL_ACKS, timeout_ms, [TopicRecords("orders", None, records)])
        context = RequestContext(PRODUCE, VERSION, "test", "PLAINTEXT", "127.0.0.1", schema(PRODUCE, VERSION))
        return asyncio.ensure_future(load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker))

    def _check(self, chunks: list[bytes], expected: ErrorCode) -> None:
        response, _ = schema(PRODUCE, VERSION).read_response(b"".join(chunks), 0)
        (topic,) = response.responses
        errors = {one.index: one.error_code for one in topic.partition_responses}
        assert errors.pop(self.WAITING) is expected
        assert list(errors) == [index for index in range(self.COUNT) if index != self.WAITING]
        assert set(errors.values()) == {ErrorCode.none}

    def test_response_waits_until_the_last_partition_is_committed(self, broker: FakeBroker) -> None:
        waiting = self._add_topic(broker)

        async def scenario() -> list[bytes]:
            handling = self._start(broker, 60_000)
            while not waiting.pending_commits:
                await asyncio.sleep(0)
            assert not handling.done()
            waiting.become_leaderless(2)
            return await asyncio.wait_for(handling, 20)

        self._check(asyncio.run(scenario()), ErrorCode.not_leader_or_follower)

    def test_partition_that_is_not_committed_in_time_has_an_error(self, broker: FakeBroker) -> None:
        self._add_topic(broker)

        async def scenario() -> list[bytes]:
            return await asyncio.wait_for(self._start(broker, 20), 20)

        self._check(asyncio.run(scenario()), ErrorCode.request_timed_out)


def test_idempotent_batch_after_a_stall_does_not_replace_the_one_rejected_during_it(broker: FakeBroker) -> None:
    """The producer has both in flight. A log without its batches would accept the second as its first."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None

    def send(sequence: int) -> ErrorCode:
        sent = _produce(broker, 1, producer_id=7, producer_epoch=0, base_sequence=sequence)
        return _code(asyncio.run(sent))

    partition.threads.health.is_stalled = True
    assert send(0) is ErrorCode.kafka_storage_error
    partition.threads.health.is_stalled = False
    assert send(1) is ErrorCode.kafka_storage_error
    assert partition.log.log_end_offset == 0
    assert [send(0), send(1)] == [ErrorCode.none, ErrorCode.none]


class WatchedExecutor(InlineExecutor):
    """Keeps the errors of the work it runs."""

    def __init__(self) -> None:
        self.errors: list[KafkaError] = []

    async def run(self, work: Callable[[], Any], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> Any:
        try:
            return await super().run(work, pool=pool, lane=lane)
        except KafkaError as error:
            self.errors.append(error)
            raise


def test_errors_of_rejected_batches_do_not_keep_their_records(broker: FakeBroker) -> None:
    """The thread takes the next batch before the event loop has handled the error of this one."""
    broker.executor = watched = WatchedExecutor()
    broker.add_topic("orders", configs={"cleanup.policy": "compact"})
    bomb = compress(ZSTD, bytes(MAX_DECOMPRESSED_BYTES + 1))
    data = asyncio.run(_produce(broker, ALL_ACKS, codec=ZSTD, body=bomb))
    assert _code(data) is ErrorCode.message_too_large
    assert len(watched.errors) == 2, "the records were opened in the pool, and then in the lane of large batches"
    for error in watched.errors:
        assert error.__cause__ is None
        assert error.__context__ is None
        frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert not any("decompress" in name or name == "validate" for name in frames), frames
