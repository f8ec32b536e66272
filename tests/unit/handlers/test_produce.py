"""What a producer is told when the disk fails while its records are being published."""

import asyncio

from odradek.base.errors import ErrorCode
from odradek.handlers.apis import BROKER_APIS, load_handler
from odradek.handlers.context import RequestContext
from odradek.handlers.late_answer import LateAnswer, given
from odradek.partition.partition import Partition
from odradek.protocol.produce_codec import PartitionRecords, ProduceRequest, TopicRecords
from odradek.protocol.schemas import schema
from odradek.replication.leader import LeaderState
from tests.record_batches import TestRecord, batch
from tests.unit.handlers.fake_broker import NODE_ID, FakeBroker

PRODUCE, VERSION = 0, 9
ALL_ACKS = -1


class UnreadableDisk:
    """A follower that waits for records, for which they cannot be read."""

    def partition_changed(self, partition: Partition, added_bytes: int) -> None:
        del partition.end_watchers[self]
        partition.withdraw(ErrorCode.kafka_storage_error)


def replicated() -> LeaderState:
    return LeaderState(
        broker_id=NODE_ID,
        leader_epoch=1,
        partition_epoch=0,
        replicas=(NODE_ID, 2, 3),
        isr=(NODE_ID, 2, 3),
        min_isr=2,
        epoch_start_offset=0,
        log_end_offset=0,
        high_watermark=0,
        lag_max_seconds=10.0,
        brokers=lambda _: None,
        now=0.0,
    )


def produce(broker: FakeBroker, acks: int) -> ErrorCode:
    async def answer() -> bytes:
        records = PartitionRecords(0, memoryview(bytearray(batch(TestRecord()))))
        request = ProduceRequest(None, acks, 1000, [TopicRecords("orders", None, [records])])
        context = RequestContext(PRODUCE, VERSION, "test", "PLAINTEXT", "127.0.0.1", schema(PRODUCE, VERSION))
        found = load_handler(BROKER_APIS[PRODUCE]).handle(request, context, broker)
        return bytes(await given(found) if isinstance(found, LateAnswer) else found)

    response, _ = schema(PRODUCE, VERSION).read_response(asyncio.run(answer()), 0)
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


def test_records_that_no_replica_has_are_not_acknowledged(broker: FakeBroker) -> None:
    """Seen in a simulation (replicas-crash, 1001): replicas were forgotten with the disk, and the wait with them."""
    broker.add_topic("orders")
    partition = broker.partition("orders", 0)
    assert partition is not None
    partition.become_leader(NODE_ID, 1, replicated())
    partition.end_watchers[UnreadableDisk()] = None
    assert produce(broker, ALL_ACKS) is ErrorCode.kafka_storage_error
