"""What a producer is told when the disk fails while its records are being published."""

import asyncio
from inspect import isawaitable

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.core.replication.follower import FollowerState
from odradek.server.context import RequestContext
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.produce_codec import PartitionRecords, ProduceRequest, TopicRecords
from odradek.wire.schemas import schema
from tests.record_batches import TestRecord, batch
from tests.unit.broker.fake_broker import NODE_ID, FakeBroker, with_followers

PRODUCE, VERSION = 0, 9
ALL_ACKS = -1


class UnreadableDisk:
    """A follower that waits for records, for which they cannot be read."""

    def on_partition_change(self, partition: Partition, added_bytes: int) -> None:
        del partition.end_watchers[self]
        partition.withdraw(ErrorCode.kafka_storage_error)


async def _produce(broker: FakeBroker, acks: int) -> bytes:
    records = PartitionRecords(0, memoryview(bytearray(batch(TestRecord()))))
    request = ProduceRequest(None, acks, 1000, [TopicRecords("orders", None, [records])])
    context = RequestContext(PRODUCE, VERSION, "test", "PLAINTEXT", "127.0.0.1", schema(PRODUCE, VERSION))
    found = load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker)
    if isinstance(found, DeferredResponse):
        return bytes(await found.wait())
    return bytes(await found if isawaitable(found) else found)


def produce(broker: FakeBroker, acks: int) -> ErrorCode:
    return _code(asyncio.run(_produce(broker, acks)))


def _code(answer: bytes) -> ErrorCode:
    response, _ = schema(PRODUCE, VERSION).read_response(answer, 0)
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


def test_records_that_no_replica_has_are_not_acknowledged(broker: FakeBroker) -> None:
    """Seen in a simulation (replicas-crash, 1001): replicas were forgotten with the disk, and the wait with them."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    partition.become_leader(NODE_ID, 1, with_followers(partition, 1, min_isr=2))
    partition.end_watchers[UnreadableDisk()] = None
    assert produce(broker, ALL_ACKS) is ErrorCode.kafka_storage_error


def test_records_that_waited_for_their_turn_are_not_for_a_follower(broker: FakeBroker) -> None:
    """Between the request and its turn another broker leads: in its epoch this one must not write a word of its own."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    following = FollowerState(
        leader_id=2,
        leader_epoch=1,
        high_watermark=partition.shared_high_watermark,
        backoff_max_seconds=1.0,
    )

    async def scenario() -> bytes:
        change = asyncio.ensure_future(
            partition.run_exclusively(lambda: None, lambda _: partition.become_follower(2, 1, following))
        )
        await asyncio.sleep(0)
        assert not partition.can_append_now
        found = await _produce(broker, 1)
        await change
        return found

    assert _code(asyncio.run(scenario())) is ErrorCode.not_leader_or_follower
    assert partition.log.log_end_offset == 0
