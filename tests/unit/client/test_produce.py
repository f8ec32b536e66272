from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import UnknownPartition, UnknownTopic
from odradek.client.produce import BATCH_BYTES, Producer
from odradek.records.batch import parse_batches
from odradek.records.decode import decode_batch
from odradek.records.record import Record
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import CLOSE_CONNECTION, METADATA, ScriptedBroker, in_turn

VERSIONS = {ApiKey.PRODUCE: (0, 13), METADATA: (0, 13), ApiKey.INIT_PRODUCER_ID: (0, 6)}


def produced(code: ErrorCode = ErrorCode.none) -> Any:
    def handle(request: Message, chosen: Schema) -> Message:
        return chosen.new(
            "ProduceResponse",
            responses=tuple(
                chosen.new(
                    "TopicProduceResponse",
                    name=getattr(topic, "name", None),
                    topic_id=getattr(topic, "topic_id", None),
                    partition_responses=tuple(
                        chosen.new(
                            "PartitionProduceResponse",
                            index=partition.index,
                            error_code=code,
                            base_offset=100,
                            log_append_time=None,
                            log_start_offset=0,
                            record_errors=(),
                            error_message="the broker's words" if code is not ErrorCode.none else None,
                        )
                        for partition in topic.partition_data
                    ),
                )
                for topic in request.topic_data
            ),
            throttle_time=milliseconds(0),
        )

    return handle


def producer_id(request: Message, chosen: Schema) -> Message:
    assert chosen.version <= 5, "version 6 is not stable"
    return chosen.new(
        "InitProducerIdResponse",
        throttle_time=milliseconds(0),
        error_code=ErrorCode.none,
        producer_id=7,
        producer_epoch=0,
    )


def broker_with(produce: Any, **partitions: int) -> ScriptedBroker:
    broker = ScriptedBroker({ApiKey.PRODUCE: produce, ApiKey.INIT_PRODUCER_ID: producer_id}, VERSIONS)
    broker.handlers[METADATA] = broker.metadata(partitions)
    return broker


def sent_batches(broker: ScriptedBroker) -> list[bytes]:
    return [
        bytes(partition.records)
        for request in broker.requests
        if request.__api_key__ == ApiKey.PRODUCE
        for topic in request.topic_data
        for partition in topic.partition_data
    ]


@pytest.mark.parametrize("highest", [3, 8, 9, 12, 13])
def test_records_are_sent_in_every_version(highest: int) -> None:
    with broker_with(produced(), orders=1) as broker, Cluster([broker.address]) as cluster:
        broker.versions[ApiKey.PRODUCE] = (0, highest)
        producer = Producer(cluster)
        record = Record(b"k", b"v", 1000, (("h", None),))
        producer.add("orders", record)
        (stored,) = producer.flush()
        assert (stored.base_offset, stored.record_count) == (100, 1)
        (data,) = sent_batches(broker)
        (header,) = parse_batches(data)
        assert decode_batch(data, header) == [record._replace(offset=0)]
        assert (header.producer_id, header.base_sequence) == (7, 0)


@pytest.mark.parametrize("trouble", [produced(ErrorCode.not_leader_or_follower), lambda *_: CLOSE_CONNECTION])
def test_a_retried_batch_keeps_its_sequence_numbers(trouble: Any) -> None:
    with (
        broker_with(in_turn([trouble, produced()]), orders=1) as broker,
        Cluster([broker.address]) as cluster,
    ):
        producer = Producer(cluster)
        producer.add("orders", Record(None, b"once"))
        producer.flush()
        first, second = sent_batches(broker)
        assert first == second
        producer.add("orders", Record(None, b"next"))
        producer.flush()
        assert parse_batches(sent_batches(broker)[-1])[0].base_sequence == 1


def test_a_duplicate_batch_counts_as_stored() -> None:
    with (
        broker_with(produced(ErrorCode.duplicate_sequence_number), orders=1) as broker,
        Cluster([broker.address]) as cluster,
    ):
        producer = Producer(cluster)
        producer.add("orders", Record(None, b"once"))
        assert [stored.base_offset for stored in producer.flush()] == [-1]


def test_errors_contain_the_brokers_message() -> None:
    with (
        broker_with(produced(ErrorCode.message_too_large), orders=1) as broker,
        Cluster([broker.address]) as cluster,
    ):
        producer = Producer(cluster)
        producer.add("orders", Record(None, b"x"))
        with pytest.raises(KafkaError, match="the broker's words"):
            producer.flush()


def test_many_records_are_sent_in_several_batches_in_order() -> None:
    with broker_with(produced(), orders=1) as broker, Cluster([broker.address]) as cluster:
        producer = Producer(cluster)
        for number in range(5):
            producer.add("orders", Record(b"%d" % number, bytes(BATCH_BYTES // 2)))
        assert sum(stored.record_count for stored in producer.flush()) == 5
        headers = [parse_batches(data)[0] for data in sent_batches(broker)]
        assert [header.base_sequence for header in headers] == [0, 1, 2, 3, 4]


def test_records_without_a_key_share_a_partition_per_batch() -> None:
    with broker_with(produced(), orders=50) as broker, Cluster([broker.address]) as cluster:
        producer = Producer(cluster)
        for number in range(20):
            producer.add("orders", Record(None, b"%d" % number))
        assert len(producer.flush()) == 1


def test_only_acks_all_uses_a_producer_id_and_acks_0_expects_no_response() -> None:
    with broker_with(lambda *_: CLOSE_CONNECTION, orders=1) as broker, Cluster([broker.address]) as cluster:
        producer = Producer(cluster, acks=0)
        producer.add("orders", Record(None, b"x"))
        assert [stored.base_offset for stored in producer.flush()] == [-1]
        assert not any(request.__api_key__ == ApiKey.INIT_PRODUCER_ID for request in broker.requests)


def test_a_broker_without_producer_ids_is_supported() -> None:
    with broker_with(produced(), orders=1) as broker, Cluster([broker.address]) as cluster:
        del broker.versions[ApiKey.INIT_PRODUCER_ID]
        producer = Producer(cluster)
        producer.add("orders", Record(None, b"x"))
        producer.flush()
        assert parse_batches(sent_batches(broker)[0])[0].producer_id == -1


def test_unknown_topics_and_partitions() -> None:
    with broker_with(produced(), orders=2) as broker, Cluster([broker.address]) as cluster:
        producer = Producer(cluster)
        with pytest.raises(UnknownTopic):
            producer.add("order", Record(None, b"x"))
        for partition in (-1, 2):
            with pytest.raises(UnknownPartition, match="only partitions 0 to 1"):
                producer.add("orders", Record(None, b"x"), partition)
