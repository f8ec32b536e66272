"""Apache Kafka's own command-line tools, unmodified: what operators' scripts call."""

import json
import re
from pathlib import Path

import pytest

from tests.apis import Api, versions
from tests.kafka.apache_kafka import KafkaTools, ToolFailed
from tests.node_process import NODE_ID, NodeProcess


def test_topics(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000")
    assert topic in tools.topics("--list").splitlines()
    described = tools.topics("--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert "retention.ms=60000" in described
    assert described.count(f"Leader: {NODE_ID}") == 2
    tools.topics("--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in tools.topics("--describe", "--topic", topic)
    tools.topics("--delete", "--topic", topic)
    assert topic not in tools.topics("--list").splitlines()


def test_topics_tool_reports_errors(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    with pytest.raises(ToolFailed, match="already exists"):
        tools.topics("--create", "--topic", topic)
    with pytest.raises(ToolFailed, match="does not exist"):
        tools.topics("--describe", "--topic", f"{topic}-that-is-not-there")
    with pytest.raises(ToolFailed, match="replication factor of 3 cannot be reached"):
        tools.topics("--create", "--topic", f"{topic}-3", "--replication-factor", "3")


def test_configs(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    about = ("--entity-type", "topics", "--entity-name", topic)
    tools.configs("--alter", *about, "--add-config", "retention.ms=12345,cleanup.policy=[compact,delete]")
    described = tools.configs("--describe", *about)
    assert "retention.ms=12345" in described
    assert "cleanup.policy=compact,delete" in described
    tools.configs("--alter", *about, "--delete-config", "retention.ms")
    assert "retention.ms=12345" not in tools.configs("--describe", *about)
    with pytest.raises(ToolFailed, match="InvalidConfigurationException"):
        tools.configs("--alter", *about, "--add-config", "retention.ms=soon")


def test_broker_configs(tools: KafkaTools) -> None:
    about = ("--entity-type", "brokers", "--entity-name", str(NODE_ID))
    tools.configs("--alter", *about, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tools.configs("--describe", *about)
    tools.configs("--alter", *about, "--delete-config", "log.cleaner.threads")
    every = tools.configs("--describe", "--all", *about)
    assert f"node.id={NODE_ID}" in every


def test_console_producer_and_offsets(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    tools.console_producer("--topic", topic, "--compression-codec", "zstd", lines=["one", "two", "three"])
    assert tools.get_offsets("--topic", topic).split() == [f"{topic}:0:3"]
    read = tools.console_consumer(
        "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "20000"
    )
    assert read.splitlines()[:3] == ["one", "two", "three"]


def test_producer_performance(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    report = tools.producer_performance(
        "--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
        "--command-property", "acks=all", "enable.idempotence=true",
    )  # fmt: skip
    assert "20000 records sent" in report
    assert tools.get_offsets("--topic", topic).split() == [f"{topic}:0:20000"]


def test_deleting_records(tools: KafkaTools, topic: str, tmp_path: Path) -> None:
    tools.topics("--create", "--topic", topic)
    tools.console_producer("--topic", topic, lines=["one", "two", "three"])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    assert "low_watermark: 2" in tools.delete_records("--offset-json-file", str(plan))
    assert tools.get_offsets("--topic", topic, "--time", "earliest").split() == [f"{topic}:0:2"]


def test_dumping_a_segment(tools: KafkaTools, broker: NodeProcess, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    tools.console_producer("--topic", topic, lines=["one", "two"])
    directory = broker.log_dirs[0] / f"{topic}-0"
    log = tools.dump_log(directory / "00000000000000000000.log", arguments=["--print-data-log"])
    assert "payload: one" in log
    assert "payload: two" in log
    assert "isvalid: true" in log
    indexes = [directory / f"00000000000000000000.{name}" for name in ("index", "timeindex")]
    assert "corrupt" not in tools.dump_log(*indexes, arguments=["--index-sanity-check"])


def test_log_dirs(tools: KafkaTools, broker: NodeProcess, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    printed = tools.log_dirs("--describe", "--topic-list", topic)
    report = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    (described,) = report["brokers"]
    (log_dir,) = described["logDirs"]
    assert log_dir["logDir"] == str(broker.log_dirs[0])
    assert [partition["partition"] for partition in log_dir["partitions"]] == [f"{topic}-0"]


def test_api_versions(tools: KafkaTools) -> None:
    """The Java client understands every version that is advertised, and uses the newest."""
    printed = tools.broker_api_versions()
    for api in Api:
        line = next(line for line in printed.splitlines() if re.search(rf"\({int(api)}\):", line))
        newest = versions(api)[-1]
        assert f"[usable: {newest}]" in line
        assert re.search(rf"\): (\d+ to )?{newest} ", line)


def test_features_and_cluster(tools: KafkaTools) -> None:
    assert re.search(r"metadata.version\s.*FinalizedVersionLevel", tools.features("describe"))
    assert "Cluster ID" in tools.cluster("cluster-id")


def test_describing_producers(tools: KafkaTools, topic: str) -> None:
    tools.topics("--create", "--topic", topic)
    tools.console_producer("--topic", topic, lines=["one"])
    described = tools.transactions("describe-producers", "--topic", topic, "--partition", "0")
    assert "ProducerId" in described
    assert len(described.strip().splitlines()) == 2
