"""Odradek and Apache Kafka open, extend and hand back the same metadata log in turn."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.wire.plain_requests import until

pytestmark = pytest.mark.kafka

# Frequent snapshots, so that there are logs and snapshots to read.
PROPERTIES = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


class _Standalone(NodeProcess):
    """A quorum with dynamic voters: its voter is in the log, not in the configuration."""

    def server_properties(self) -> dict[str, str]:
        properties = super().server_properties()
        del properties["controller.quorum.voters"]
        return {**properties, "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}"}


class StandaloneOdradek(_Standalone, OdradekProcess):
    def format_command(self) -> list[str]:
        return [*super().format_command(), "--standalone"]


class StandaloneKafka(_Standalone, ApacheKafka):
    def format_command(self) -> list[str]:
        return [*super().format_command(), "--standalone"]


class Pair:
    """Both brokers on one directory, run one at a time."""

    def __init__(self, libs: Path, directory: Path, *, is_standalone: bool) -> None:
        self.libs = libs
        self.metadata = directory / "data" / "__cluster_metadata-0"
        odradek_type = StandaloneOdradek if is_standalone else OdradekProcess
        kafka_type = StandaloneKafka if is_standalone else ApacheKafka
        self.odradek: NodeProcess = odradek_type(directory, properties=PROPERTIES)
        self.kafka: NodeProcess = kafka_type(libs, directory, properties=PROPERTIES)
        self.kafka.port, self.kafka.controller_port = self.odradek.port, self.odradek.controller_port
        self.tools = KafkaTools(libs, self.odradek.bootstrap)

    def during(self, node: NodeProcess, work: Callable[[], None], *, kill: bool = False) -> None:
        node.start()
        try:
            work()
            if not kill:
                node.stop()
        finally:
            node.kill()

    def client(self) -> Cluster:
        return Cluster(parse_bootstrap(self.odradek.bootstrap))

    def described(self) -> str:
        """Topics with IDs, partitions and configs, without the epochs that change with every restart."""
        lines = self.tools.topics("--describe").splitlines()
        return "\n".join(sorted(line.strip() for line in lines if "Topic:" in line))

    def dump(self) -> str:
        files = [*self.metadata.glob("*.log"), *self.metadata.glob("*.checkpoint")]
        return self.tools.dump_log(*sorted(files), arguments=["--cluster-metadata-decoder"])


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.tier("proof"))], ids=["standalone", "fixed voters"])
def pair(apache_kafka_libs: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Pair:
    return Pair(apache_kafka_libs, tmp_path, is_standalone=request.param)


def _fill(admin: Admin, prefix: str) -> None:
    admin.create_topic(f"{prefix}.orders", partitions=3, replication_factor=1, configs={"retention.ms": "100000"})
    admin.create_topic(f"{prefix}.doomed", partitions=1, replication_factor=1, configs={})
    admin.create_partitions(f"{prefix}.orders", 5)
    admin.delete_topic(f"{prefix}.doomed")
    changes = {"cleanup.policy": "compact,delete", "segment.ms": "60000"}
    orders = Resource(ResourceType.TOPIC, f"{prefix}.orders")
    admin.alter_configs(orders, changes=changes)
    # The controller has responded; the broker may apply the change a moment later.
    until(lambda: {one.name: one.value for one in admin.configs(orders)}.items() >= changes.items(), what="the configs")


def _features(tools: KafkaTools) -> list[str]:
    return [re.sub(r"Epoch: \d+", "", line).strip() for line in tools.features("describe").splitlines()]


def test_metadata_log_is_continued_by_the_other_broker(pair: Pair) -> None:
    described: list[str] = []
    features: list[list[str]] = []

    def fill(prefix: str) -> Callable[[], None]:
        def work() -> None:
            if described:
                assert pair.described() == described[-1]
            with pair.client() as cluster:
                _fill(Admin(cluster), prefix)
            described.append(pair.described())
            features.append(_features(pair.tools))

        return work

    def look() -> None:
        assert pair.described() == described[-1]

    pair.during(pair.odradek, fill("odradek"))
    _check_dump(pair.dump(), epochs=1)
    pair.during(pair.kafka, fill("kafka"))
    pair.during(pair.odradek, fill("again"), kill=True)
    pair.during(pair.odradek, look)
    pair.during(pair.kafka, look)
    for prefix in ("odradek", "kafka", "again"):
        assert described[-1].count(f"Topic: {prefix}.orders\tTopicId") == 1
        assert f"Topic: {prefix}.orders\tPartition: 4\tLeader: 1" in described[-1]
        assert f"{prefix}.doomed" not in described[-1]
    assert re.search(r"odradek\.orders.*Configs: .*cleanup\.policy=compact,delete", described[-1])
    assert features[0] == features[1] == features[2] != []


def test_feature_levels_of_kafkas_directory_stay(pair: Pair) -> None:
    """Kafka formats a directory for share groups and streams groups, whose APIs Odradek does not serve."""
    features: list[list[str]] = []
    for node in (pair.kafka, pair.odradek, pair.kafka):
        pair.during(node, lambda: features.append(_features(pair.tools)))
    levels = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", "\n".join(features[1])))
    assert (levels["share.version"], levels["streams.version"]) == ("1", "1")
    assert features[0] == features[1] == features[2]


def _check_dump(dumped: str, epochs: int) -> None:
    """Assert that Kafka's tool read every batch and decoded every record."""
    for trouble in ("isvalid: false", "Could not", "Error", "Exception"):
        assert trouble not in dumped
    assert set(re.findall(r'"type":"([A-Z_]+)"', dumped)) >= {
        "BEGIN_TRANSACTION_RECORD",
        "END_TRANSACTION_RECORD",
        "FEATURE_LEVEL_RECORD",
        "CONFIG_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
    }
    assert dumped.count("LeaderChange") == epochs
    assert dumped.count("SnapshotHeader") == dumped.count("SnapshotFooter") > 0


@pytest.mark.parametrize("writer", ["odradek", pytest.param("kafka", marks=pytest.mark.tier("proof"))])
def test_metadata_is_restored_from_a_snapshot_alone(pair: Pair, writer: str) -> None:
    described: list[str] = []
    first, second = (pair.odradek, pair.kafka) if writer == "odradek" else (pair.kafka, pair.odradek)

    def fill() -> None:
        with pair.client() as cluster:
            names = [f"topic-{number}" for number in range(3)]
            for name in names:
                Admin(cluster).create_topic(name, partitions=40, replication_factor=1, configs={})
            # The controller has responded; the broker may apply the change a moment later.
            until(lambda: len(cluster.layout(names).topics) == 3, what="all topics")
        described.append(pair.described())

    pair.during(first, fill)
    assert max(file.name for file in pair.metadata.glob("*.checkpoint")) > "00000000000000000001"
    for file in pair.metadata.iterdir():
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot") or file.name == "leader-epoch-checkpoint":
            file.unlink()

    def compare() -> None:
        # Changes after the last snapshot were deleted with the log.
        found = set(pair.described().splitlines())
        assert found <= set(described[0].splitlines())
        assert len(found) > 40

    pair.during(second, compare)
