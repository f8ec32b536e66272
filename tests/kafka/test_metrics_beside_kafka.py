"""The same requests give the same metrics: Kafka's through JMX, Odradek's under the names of the JMX exporter."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.metrics_scrape import Scrape, scrape
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import CLIENT_ID, RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import create_topic, fetch, now_ms, produce_batch, query_offset, until
from tests.wire.quota_node import set_quota

pytestmark = pytest.mark.kafka

TOPIC = "counted"
TOPICS = "kafka.server:type=BrokerTopicMetrics,name={}"
OF_TOPIC = TOPICS + f",topic={TOPIC}"
PARTITION = f",topic={TOPIC},partition=0"
REQUESTS = "kafka.network:type=RequestMetrics,name="

COUNTS = [
    *(OF_TOPIC.format(name) for name in ("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec")),
    *(OF_TOPIC.format(name) for name in ("TotalProduceRequestsPerSec", "TotalFetchRequestsPerSec")),
    *(TOPICS.format(name) for name in ("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec")),
    *(TOPICS.format(name) for name in ("FailedProduceRequestsPerSec", "FailedFetchRequestsPerSec")),
    *(TOPICS.format(name) for name in ("BytesRejectedPerSec", "ReplicationBytesInPerSec")),
    REQUESTS + "RequestsPerSec,request=Produce,version=9",
    REQUESTS + "RequestsPerSec,request=FetchConsumer,version=12",
    REQUESTS + "RequestsPerSec,request=Fetch,version=12",
    REQUESTS + "ErrorsPerSec,request=Produce,error=MESSAGE_TOO_LARGE",
    REQUESTS + "ErrorsPerSec,request=Produce,error=UNKNOWN_TOPIC_OR_PARTITION",
    REQUESTS + "ErrorsPerSec,request=Fetch,error=OFFSET_OUT_OF_RANGE",
    REQUESTS + "TotalTimeMs,request=Produce",
    REQUESTS + "RemoteTimeMs,request=Produce",
]
VALUES = [
    *(f"kafka.log:type=Log,name={name}{PARTITION}" for name in ("Size", "LogStartOffset", "LogEndOffset")),
    f"kafka.log:type=Log,name=NumLogSegments{PARTITION}",
    *(f"kafka.cluster:type=Partition,name={name}{PARTITION}" for name in ("UnderReplicated", "InSyncReplicasCount")),
    *(f"kafka.cluster:type=Partition,name={name}{PARTITION}" for name in ("AtMinIsr", "UnderMinIsr", "ReplicasCount")),
    *(f"kafka.server:type=ReplicaManager,name={name}" for name in ("PartitionCount", "LeaderCount")),
    *(f"kafka.server:type=ReplicaManager,name={name}" for name in ("UnderReplicatedPartitions", "OfflineReplicaCount")),
    *(f"kafka.server:type=ReplicaManager,name={name}" for name in ("AtMinIsrPartitionCount", "ReassigningPartitions")),
    *(f"kafka.controller:type=KafkaController,name={name}" for name in ("ActiveControllerCount", "GlobalTopicCount")),
    *(f"kafka.controller:type=KafkaController,name={name}" for name in ("ActiveBrokerCount", "FencedBrokerCount")),
    "kafka.controller:type=KafkaController,name=BrokerRegistrationState,broker=1",
    "kafka.server:type=KafkaServer,name=BrokerState",
    "kafka.server:type=MetadataLoader,name=CurrentMetadataVersion",
    "kafka.server:type=MetadataLoader,name=FinalizedLevel,featureName=transactionVersion",
]


QUOTAS = {kind: f"kafka.server:type={kind},client-id={CLIENT_ID}" for kind in ("Produce", "Fetch")}
# Nothing expires while the test runs, and its duration does not matter: a rate covers ten windows, and the time since
# the first request.
LONG_WINDOWS = {"quota.window.size.seconds": "360000"}


def use(node: NodeProcess) -> None:
    with RawConnection(node.port) as wire:
        for key in ("producer_byte_rate", "consumer_byte_rate"):
            set_quota(wire, key, 2000, client_id=CLIENT_ID)
        assert create_topic(wire, TOPIC, configs={"max.message.bytes": "50000"}) is ErrorCode.none
        # Not with Produce or Fetch, because those are counted.
        until(lambda: query_offset(wire, TOPIC, -1).error_code is ErrorCode.none, what="a leader")
        stamp = now_ms()
        for size in (1, 1000, 20_000):
            records = batch(TestRecord(b"x" * size), TestRecord(b"y"), timestamp=stamp)
            assert produce_batch(wire, TOPIC, records).error is ErrorCode.none
        large = batch(TestRecord(b"x" * 60_000), timestamp=stamp)
        assert produce_batch(wire, TOPIC, large).error is ErrorCode.message_too_large
        missing = produce_batch(wire, TOPIC, batch(TestRecord(b"x"), timestamp=stamp), partition=7)
        assert missing.error is ErrorCode.unknown_topic_or_partition
        assert len(fetch(wire, TOPIC, 0).values) == 3
        assert len(fetch(wire, TOPIC, 4).values) == 1
        assert fetch(wire, TOPIC, 99).error is ErrorCode.offset_out_of_range


def ours(found: Scrape, bean: str, *, is_count: bool) -> float:
    """The value of a bean under its exporter name, by the rules of kafka-2_0_0.yml."""
    domain, kind, name, rest = re.fullmatch(r"([\w.]+):type=([\w-]+),name=([\w-]+)(?:,(.+))?", bean).groups()  # type: ignore[union-attr]
    labels = dict(pair.split("=") for pair in rest.split(",")) if rest else {}
    whole = f"{domain}_{kind}_{name}".replace(".", "_").lower()
    if is_count:
        whole = f"{whole.removesuffix('persec')}_total" if whole.endswith("persec") else f"{whole}_count"
    try:
        return found(whole, **labels)
    except KeyError:
        return 0.0


@pytest.fixture(scope="module")
def figures(
    tmp_path_factory: pytest.TempPathFactory, apache_kafka_libs: Path
) -> Iterator[tuple[dict[str, float], Scrape]]:
    http_port, jmx_port = free_ports(2)
    jmx = "-Dcom.sun.management.jmxremote"
    flags = (
        f"{jmx}.port={jmx_port}",
        f"{jmx}.rmi.port={jmx_port}",
        f"{jmx}.authenticate=false",
        f"{jmx}.ssl=false",
        "-Djava.rmi.server.hostname=127.0.0.1",
    )
    kafka = ApacheKafka(apache_kafka_libs, tmp_path_factory.mktemp("kafka"), flags=flags, properties=LONG_WINDOWS)
    odradek = OdradekProcess(
        tmp_path_factory.mktemp("odradek"), properties={"http.address": str(http_port), **LONG_WINDOWS}
    )
    try:
        for node in (kafka, odradek):
            use(node.start())
        yield _by_jmx(KafkaTools(apache_kafka_libs, kafka.bootstrap), jmx_port), scrape(http_port)
    finally:
        kafka.remove()
        odradek.remove()


def _by_jmx(tools: KafkaTools, port: int) -> dict[str, float]:
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    printed = tools.run(
        "org.apache.kafka.tools.JmxTool",
        *("--jmx-url", url, "--one-time", "--report-format", "properties", "--wait"),
        *(word for bean in (*COUNTS, *VALUES, *QUOTAS.values()) for word in ("--object-name", bean)),
    )
    return {
        match[1]: float(match[2])
        for line in printed.splitlines()
        if (match := re.fullmatch(r"(.+):(?:Count|Value|byte-rate)=(-?[\d.E]+)", line))
    }


@pytest.mark.parametrize("bean", COUNTS)
def test_metric_counts_equal_kafkas(figures: tuple[dict[str, float], Scrape], bean: str) -> None:
    by_jmx, found = figures
    assert ours(found, bean, is_count=True) == by_jmx[bean]


@pytest.mark.parametrize("bean", VALUES)
def test_metric_values_equal_kafkas(figures: tuple[dict[str, float], Scrape], bean: str) -> None:
    by_jmx, found = figures
    assert ours(found, bean, is_count=False) == by_jmx[bean]


@pytest.mark.parametrize("kind", QUOTAS)
def test_rates_of_limited_clients_equal_kafkas(figures: tuple[dict[str, float], Scrape], kind: str) -> None:
    by_jmx, found = figures
    rate = found("kafka_server_quota_byte_rate", resource=kind, clientId=CLIENT_ID)
    # A client far below its limit gets half a millisecond of it in advance: here 1 byte.
    assert rate * 3_600_000 == pytest.approx(by_jmx[QUOTAS[kind]] * 3_600_000, abs=10)
