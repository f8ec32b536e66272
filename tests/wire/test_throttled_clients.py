"""Clients above their quotas: they are delayed to their rate, and others are not."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import REFERENCE
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import (
    create_topic,
    fetch_fields,
    produce,
    produce_fields,
)
from tests.wire.quota_node import running_quota_node, set_quota

LIMIT_BYTES = 200_000
RECORD_BYTES = 5_000


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=REFERENCE)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from running_quota_node(request, tmp_path_factory)


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def assert_limited(times: Sequence[float], began: float) -> None:
    """At every record: a client may send for two windows of one second at once, and then at its rate. A client that is
    throttled too long would need a multiple of the time.
    """
    for count, time_s in enumerate(times, 1):
        assert count * RECORD_BYTES <= LIMIT_BYTES * (time_s - began + 2), (count, time_s - began)
    assert times[-1] - began < 3 * len(times) * RECORD_BYTES / LIMIT_BYTES


def test_producer_is_throttled_to_its_byte_rate(node: NodeProcess, connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    set_quota(connection, "producer_byte_rate", LIMIT_BYTES, client_id="writer")
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "writer", "batch.size": 4 * RECORD_BYTES})
    delivered: list[float] = []
    began = time.monotonic()
    for _ in range(4 * LIMIT_BYTES // RECORD_BYTES):
        producer.produce(topic, os.urandom(RECORD_BYTES), on_delivery=lambda *_: delivered.append(time.monotonic()))
    producer.flush(20)
    assert len(delivered) == 4 * LIMIT_BYTES // RECORD_BYTES
    assert_limited(delivered, began)


def test_consumer_is_throttled_to_its_byte_rate(node: NodeProcess, connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    count = 4 * LIMIT_BYTES // RECORD_BYTES
    for _ in range(count):
        assert produce(connection, topic, os.urandom(RECORD_BYTES)).error is ErrorCode.none
    set_quota(connection, "consumer_byte_rate", LIMIT_BYTES, client_id="reader")
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "reader",
            "group.id": topic,
            "fetch.message.max.bytes": 4 * RECORD_BYTES,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[float] = []
    while len(times) < count:
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        times.append(time.monotonic())
    consumer.close()
    assert_limited(times, times[0])


def test_throttled_fetch_is_empty_and_keeps_its_session(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    create_topic(connection, topic)
    for _ in range(3):
        produce(connection, topic, os.urandom(RECORD_BYTES))
    set_quota(connection, "consumer_byte_rate", RECORD_BYTES * 3 // 2, client_id="sessions")
    with RawConnection(node.port, client_id="sessions") as reader:
        first = reader.request(Api.FETCH, 12, {**fetch_fields(topic, 0, max_bytes=6000), "session_epoch": 0})
        assert first.session_id != 0 and first.throttle_time.total_seconds() == 0
        assert len(first.responses[0].partitions[0].records) > RECORD_BYTES
        fields = {**fetch_fields(topic, 1, max_bytes=6000), "session_id": first.session_id}
        throttled = reader.request(Api.FETCH, 12, {**fields, "session_epoch": 1})
        assert throttled.throttle_time.total_seconds() > 0
        assert (throttled.session_id, throttled.responses) == (first.session_id, ())
        began = time.monotonic()
        again = reader.request(Api.FETCH, 12, {**fields, "session_epoch": 2})
        assert time.monotonic() - began >= throttled.throttle_time.total_seconds() - 0.05
        assert len(again.responses[0].partitions[0].records) > RECORD_BYTES


def test_muted_connection_does_not_delay_other_clients(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    create_topic(connection, topic)
    set_quota(connection, "producer_byte_rate", 1000, client_id="muted")
    with RawConnection(node.port, client_id="muted") as muted, RawConnection(node.port, client_id="free") as free:
        fields = produce_fields(topic, batch(TestRecord(bytes(3500))))
        response = muted.request(Api.PRODUCE, 9, fields)
        delay = response.throttle_time.total_seconds()
        assert 1 < delay < 4
        began = time.monotonic()
        muted.send(Api.METADATA, 4, {"topics": []})
        for _ in range(20):
            assert free.request(Api.PRODUCE, 9, fields).throttle_time.total_seconds() == 0
        assert time.monotonic() - began < 1
        muted.receive()
        assert time.monotonic() - began >= delay - 0.05


def test_node_stops_at_once_while_connections_are_muted(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path).start()
    try:
        with RawConnection(node.port, client_id="muted") as muted:
            create_topic(muted, "orders")
            set_quota(muted, "producer_byte_rate", 1, client_id="muted")
            response = muted.request(Api.PRODUCE, 9, produce_fields("orders", batch(TestRecord(bytes(3500)))))
            assert response.throttle_time.total_seconds() > 1000
            began = time.monotonic()
            node.stop()
            assert time.monotonic() - began < 5
    finally:
        node.kill()


def test_request_percentage_throttles_for_a_second_at_most(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    set_quota(connection, "request_percentage", 0.001, client_id="busy")
    with RawConnection(node.port, client_id="busy") as busy:
        new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        responses = [
            busy.request(Api.METADATA, 4, {"topics": []}),
            # Its handler waits for the controller.
            busy.request(Api.CREATE_TOPICS, 7, {"topics": [new], "timeout": 10_000}),
            # The delay is behind a part of variable length.
            busy.request(Api.API_VERSIONS, 3, {"client_software_name": "test", "client_software_version": "1"}),
        ]
    assert [one.throttle_time.total_seconds() for one in responses] == [1, 1, 1]
    assert responses[1].topics[0].error_code is ErrorCode.none


def test_controller_mutation_rate_refuses_new_versions_and_delays_old_ones(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    set_quota(connection, "controller_mutation_rate", 1, client_id="creator")

    def create(creator: RawConnection, version: int, name: str, partitions: int) -> Any:
        one = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        return creator.request(Api.CREATE_TOPICS, version, {"topics": [one], "timeout": 10_000})

    with RawConnection(node.port, client_id="creator") as creator:
        # The bucket has eleven tokens, and one request may overdraw it.
        accepted = create(creator, 7, f"{topic}-a", 12)
        assert accepted.topics[0].error_code is ErrorCode.none
        assert accepted.throttle_time.total_seconds() == 0
        refused = create(creator, 7, f"{topic}-b", 1)
        assert refused.topics[0].error_code is ErrorCode.throttling_quota_exceeded
        assert 0.5 < refused.throttle_time.total_seconds() <= 1
        # After the delay there is room again; an old client is served even beyond it, and then delayed.
        delayed = create(creator, 5, f"{topic}-c", 3)
        assert delayed.topics[0].error_code is ErrorCode.none
        assert 2 < delayed.throttle_time.total_seconds() <= 3
