"""kafkajs: the client of Node.js programs, which speaks older versions than the others.

It can consume only in a group, so the tests read its records back with raw requests.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.apis import Api
from tests.node_process import NODE_ID, NodeProcess
from tests.raw_wire import RawConnection
from tests.record_batches import parse_batches

SCRIPT = Path(__file__).with_name("kafkajs_session.js")


class Kafkajs:
    def __init__(self, modules: Path, broker: NodeProcess) -> None:
        self._modules = modules
        self._broker = broker

    def __call__(self, *steps: tuple[str, Any]) -> list[Any]:
        """The outcome of each step; one that failed is {"error": type}."""
        result = subprocess.run(
            ["node", str(SCRIPT)],
            input=json.dumps({"bootstrap": self._broker.bootstrap, "steps": steps}),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "NODE_PATH": str(self._modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
            check=False,
        )
        assert result.returncode == 0, result.stderr
        outcomes: list[Any] = json.loads(result.stdout)
        return outcomes


@pytest.fixture
def run(kafkajs: Path, broker: NodeProcess) -> Kafkajs:
    return Kafkajs(kafkajs, broker)


def record_count(broker: NodeProcess, topic: str) -> int:
    """Waits for the first batch: with acks=0, a producer may be gone before the broker has appended its records."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    with RawConnection(broker.port) as connection:
        response = connection.request(
            Api.FETCH,
            11,
            {
                "replica_id": -1,
                "max_wait": 30_000,
                "min_bytes": 1,
                "topics": [{"topic": topic, "partitions": [partition]}],
            },
        )
    return sum(batch.record_count for batch in parse_batches(bytes(response.responses[0].partitions[0].records)))


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("gzip", [False, True], ids=["plain", "gzip"])
def test_producing(run: Kafkajs, broker: NodeProcess, topic: str, acks: int, gzip: bool) -> None:
    messages = [{"key": str(number), "value": f"value {number}", "headers": {"h": "v"}} for number in range(50)]
    created, produced = run(
        ("createTopics", [{"topic": topic, "numPartitions": 1}]),
        ("produce", {"topic": topic, "acks": acks, "gzip": gzip, "idempotent": False, "messages": messages}),
    )
    assert created is True
    if acks:
        assert [(response["errorCode"], response["baseOffset"]) for response in produced] == [(0, "0")]
    assert record_count(broker, topic) == 50


def test_idempotent_producer(run: Kafkajs, broker: NodeProcess, topic: str) -> None:
    messages = [{"value": str(number)} for number in range(100)]
    plan = {"topic": topic, "acks": -1, "gzip": False, "idempotent": True, "messages": messages}
    run(("createTopics", [{"topic": topic}]), ("produce", plan))
    assert record_count(broker, topic) == 100


def test_topic_lifecycle(run: Kafkajs, topic: str) -> None:
    created, again, illegal, listed, grown, described, deleted, gone = run(
        ("createTopics", [{"topic": topic, "numPartitions": 2}]),
        ("createTopics", [{"topic": topic}]),
        ("createTopics", [{"topic": "not a name"}]),
        ("listTopics", None),
        ("createPartitions", [{"topic": topic, "count": 4}]),
        ("metadata", [topic]),
        ("deleteTopics", [topic]),
        ("deleteTopics", [topic]),
    )
    assert (created, again) == (True, False)
    assert illegal == {"error": "INVALID_TOPIC_EXCEPTION"}
    assert topic in listed
    assert grown is None
    assert sorted(p["partitionId"] for p in described["topics"][0]["partitions"]) == [0, 1, 2, 3]
    assert deleted is None
    assert gone == {"error": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_offsets_and_deleted_records(run: Kafkajs, topic: str) -> None:
    messages = [{"value": "v", "timestamp": str(1_000_000 + number * 10)} for number in range(10)]
    _, _, before, deleted, offsets, by_time = run(
        ("createTopics", [{"topic": topic}]),
        ("produce", {"topic": topic, "acks": -1, "gzip": False, "idempotent": False, "messages": messages}),
        ("offsets", topic),
        ("deleteRecords", {"topic": topic, "partitions": [{"partition": 0, "offset": "3"}]}),
        ("offsets", topic),
        ("offsetsByTime", {"topic": topic, "timestamp": 1_000_045}),
    )
    assert before == [{"partition": 0, "offset": "10", "high": "10", "low": "0"}]
    assert deleted is None
    assert offsets == [{"partition": 0, "offset": "10", "high": "10", "low": "3"}]
    assert by_time == [{"partition": 0, "offset": "5"}]


def test_configs(run: Kafkajs, topic: str) -> None:
    resource = {"type": 2, "name": topic}
    change = {**resource, "configEntries": [{"name": "retention.ms", "value": "12345"}]}
    refused = {**resource, "configEntries": [{"name": "retention.ms", "value": "soon"}]}
    _, altered, invalid, described = run(
        ("createTopics", [{"topic": topic}]),
        ("alterConfigs", [change]),
        ("alterConfigs", [refused]),
        ("describeConfigs", [{**resource, "configNames": ["retention.ms"]}]),
    )
    assert altered["resources"][0]["errorCode"] == 0
    assert invalid == {"error": "INVALID_CONFIG"}
    (entry,) = described["resources"][0]["configEntries"]
    assert (entry["configName"], entry["configValue"]) == ("retention.ms", "12345")


def test_cluster(run: Kafkajs, broker: NodeProcess) -> None:
    (cluster,) = run(("describeCluster", None))
    assert [(node["nodeId"], node["port"]) for node in cluster["brokers"]] == [(NODE_ID, broker.port)]
