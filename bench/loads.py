"""The loads. Each takes the address of a running cluster and returns its measurement, independent of the product.

confluent-kafka is imported on first use: the tests of other parts of the benchmarks run without it.
"""

import re
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.apis import Api
from tests.kafka.apache_kafka import KafkaTools
from tests.raw_wire import encode_request

if TYPE_CHECKING:
    from confluent_kafka import Message

Progress = Callable[[str], None]


class Work(NamedTuple):
    rate: float
    """Units per second while it was measured."""
    units: int
    """Also those before the measurement, because their CPU time counts as well."""


TIMEOUT_S = 300.0
WARM_UP_ROUNDS = 3
"""Kafka's CPU time per record halves while its just-in-time compiler warms up."""
IN_FLIGHT = 5
LATENCY_RATE_PER_S = 1000
# The heap is that of Kafka's script; an archive of classes shortens the start of the tools.
PERFORMANCE_TOOL_FLAGS = ("-Xmx512M", "-Xshare:auto")


@dataclass(frozen=True)
class Volumes:
    """The size of each load."""

    warm_up_records: int
    performance_tool_records: int
    produce_100_records: int
    produce_1024_records: int
    latency_seconds: int
    catch_up_records: int
    """Records of 1 KiB."""


FULL = Volumes(500_000, 2_000_000, 3_000_000, 700_000, 10, 400_000)
QUICK = Volumes(20_000, 200_000, 200_000, 50_000, 3, 20_000)


def create_topic(
    bootstrap: str, name: str, replicas: int = 1, configs: dict[str, str] | None = None, *, partitions: int = 1
) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, replicas, config=configs or {})])[name].result(30)
    deadline = time.monotonic() + 30
    while name not in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, f"{name} did not appear"
        time.sleep(0.05)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(30)


def performance_tool(
    libs: Path,
    bootstrap: str,
    topic: str,
    records: int,
    *,
    size: int = 100,
    codec: str = "none",
    settings: Sequence[str] = (),
) -> float:
    """Records per second as reported by kafka-producer-perf-test. `settings`: more client configs, NAME=VALUE."""
    settings = (
        *("acks=all", "batch.size=65536", "linger.ms=5", "enable.idempotence=true"),
        f"compression.type={codec}",
        *settings,
    )
    printed = KafkaTools(libs, bootstrap).run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--record-size", str(size), "--throughput", "-1"),
        # Once: the tool would use the last of several options only.
        *("--command-property", *settings),
        flags=PERFORMANCE_TOOL_FLAGS,
        timeout_s=TIMEOUT_S,
    )
    last = printed.strip().splitlines()[-1]
    found = re.search(rf"^{records} records sent, ([\d.]+) records/sec", last)
    assert found, f"unexpected output: {printed[-500:]}"
    return float(found[1])


def consumer_tool(
    libs: Path, bootstrap: str, topic: str, records: int, *, group: str, settings: Sequence[str] = ()
) -> float:
    """Records per second of fetching as reported by kafka-consumer-perf-test, without joining the group."""
    printed = KafkaTools(libs, bootstrap).run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), "--hide-header"),
        *("--group", group, "--timeout", "60000"),
        *(part for setting in settings for part in ("--command-property", setting)),
        flags=PERFORMANCE_TOOL_FLAGS,
        timeout_s=TIMEOUT_S,
    )
    columns = printed.strip().splitlines()[-1].split(", ")
    assert len(columns) == 10 and int(columns[4]) >= records, f"unexpected output: {printed[-500:]}"
    return float(columns[-1])


def produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    """Records per second from the first send to the last acknowledgement."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "batch.size": 1_000_000,
            "message.max.bytes": 1_000_000,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    value = bytes(size)
    # Connect before the clock starts: only the throughput is measured.
    producer.list_topics(topic, timeout=30)
    began = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return records / (time.perf_counter() - began)


def warm_up(bootstrap: str, topic: str, records: int) -> None:
    for _ in range(WARM_UP_ROUNDS):
        produce(bootstrap, topic, records, 100)
        consume(bootstrap, topic, records)


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Records per second from the first to the last received record, by assignment."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4 << 20,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first = consumer.poll(30)
    assert first is not None, "nothing to consume"
    began = time.perf_counter()
    received = 1
    while received < records:
        messages = consumer.consume(min(10_000, records - received), 30)
        assert messages, f"only {received} of {records} records received"
        received += len(messages)
    took = time.perf_counter() - began
    consumer.close()
    return (records - 1) / took


def produce_request(topic: str, data: bytes, partition: int = 0) -> bytes:
    topic_data = [{"name": topic, "partition_data": [{"index": partition, "records": data}]}]
    return encode_request(Api.PRODUCE, 9, 1, {"acks": -1, "timeout": 30_000, "topic_data": topic_data})


def send_pipelined(bootstrap: str, frames: Sequence[bytes], requests: int) -> float:
    """Seconds for this number of requests, cycling through the frames, five in flight on one connection."""
    upcoming = islice(cycle(frames), requests)
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        connection.sendall(b"".join(islice(upcoming, IN_FLIGHT)))
        completed = 0
        received = b""
        while completed < requests:
            received += connection.recv(1 << 16)
            complete = 0
            while len(received) >= 4 and len(received) >= (size := 4 + struct.unpack_from(">i", received)[0]):
                received = received[size:]
                complete += 1
            completed += complete
            connection.sendall(b"".join(islice(upcoming, complete)))
        return time.perf_counter() - began


@dataclass(frozen=True)
class Latency:
    p50_ms: float
    p99_ms: float


def latency(bootstrap: str, topic: str, seconds: int, rate_per_s: int = LATENCY_RATE_PER_S) -> Latency:
    """Latency from `produce` until `poll` returns, at a steady rate, with one producer and one consumer."""
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    settings = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 500})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    producer = Producer({**settings, "acks": "all", "linger.ms": 0})
    count = seconds * rate_per_s
    warm_up = rate_per_s
    latencies_ms: list[float] = []

    def receive() -> None:
        while len(latencies_ms) < count + warm_up:
            message: Message | None = consumer.poll(30)
            assert message is not None, "the consumer received no record"
            value = message.value()
            assert value is not None
            latencies_ms.append((time.perf_counter_ns() - struct.unpack_from(">q", value)[0]) / 1e6)

    # Send the first record only after the consumer is positioned at the end.
    consumer.poll(2)
    receiver = threading.Thread(target=receive)
    receiver.start()
    padding = bytes(92)
    next_at = time.perf_counter()
    for _ in range(count + warm_up):
        producer.produce(topic, struct.pack(">q", time.perf_counter_ns()) + padding)
        producer.poll(0)
        next_at += 1 / rate_per_s
        time.sleep(max(0.0, next_at - time.perf_counter()))
    producer.flush(30)
    receiver.join(60)
    consumer.close()
    percentiles = statistics.quantiles(latencies_ms[warm_up:], n=100)
    return Latency(percentiles[49], percentiles[98])
