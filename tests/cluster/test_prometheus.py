"""Prometheus scrapes three brokers under load: the shipped alerts fire when a broker is killed, and resolve afterwards.

The test shortens the `for` durations of the alerts to one second.
"""

import json
import re
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import components
from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.metrics_scrape import get
from tests.node_process import free_ports
from tests.patience import Patience

MONITORING = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
TOPIC = "watched"
QUICK = {
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
}
OF_A_DEAD_BROKER = {"NodeDown", "BrokerFenced", "UnderReplicatedPartitions"}


class Prometheus:
    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, path: str, **parameters: str) -> Any:
        response = get(self.port, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert response.status == 200, response.body
        return json.loads(response.body)["data"]

    def firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.query("alerts")["alerts"] if one["state"] == "firing"}

    def scraped(self) -> int:
        """The number of nodes scraped successfully."""
        return sum(one["health"] == "up" for one in self.query("targets")["activeTargets"])


@pytest.fixture(scope="module")
def programs() -> tuple[str, str]:
    return components.require(
        "Prometheus", lambda: (components.find_program("prometheus"), components.find_program("promtool"))
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealCluster, dict[int, int]]]:
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    with real_cluster(
        tmp_path_factory.mktemp("watched"),
        dict.fromkeys(ports, COMBINED),
        properties=QUICK,
        properties_of={node_id: {"http.address": str(port)} for node_id, port in ports.items()},
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, replication_factor=3)])[TOPIC].result(20)
        yield cluster, ports


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory,
    programs: tuple[str, str],
    cluster: tuple[RealCluster, dict[int, int]],
) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    shortened = re.sub(r"for: \w+", "for: 1s", (MONITORING / "alerts.yml").read_text())
    (directory / "alerts.yml").write_text(shortened)
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {
                "job_name": "odradek",
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in cluster[1].values()]}],
            }
        ],
    }
    # YAML is a superset of JSON.
    (directory / "prometheus.yml").write_text(json.dumps(config))
    (port,) = free_ports(1)
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            [
                programs[0],
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=output,
        )
    server = Prometheus(port)
    try:
        wait_for("Prometheus", lambda: _is_up(server, len(cluster[1])))
        yield server
    finally:
        process.kill()
        process.wait()


def _is_up(server: Prometheus, nodes: int) -> bool:
    try:
        return server.scraped() == nodes
    except (OSError, AssertionError):
        return False


@pytest.fixture
def load(cluster: tuple[RealCluster, dict[int, int]]) -> Iterator[None]:
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster[0].bootstrap, "linger.ms": 5, "log_level": 0})
        consumer = Consumer({"bootstrap.servers": cluster[0].bootstrap, "group.id": "readers", "log_level": 0})
        consumer.subscribe([TOPIC])
        while not stop.wait(0.02):
            for _ in range(20):
                producer.produce(TOPIC, b"x" * 200)
            producer.poll(0)
            consumer.consume(100, 0)
        producer.purge()
        consumer.close()

    writer = threading.Thread(target=write)
    writer.start()
    yield
    stop.set()
    writer.join()


def test_promtool_accepts_the_alert_rules(programs: tuple[str, str]) -> None:
    checked = subprocess.run(
        [programs[1], "check", "rules", str(MONITORING / "alerts.yml")], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked


@pytest.mark.usefixtures("load")
@pytest.mark.tier("proof")
def test_alerts_fire_when_a_broker_is_killed_and_resolve_when_it_restarts(
    cluster: tuple[RealCluster, dict[int, int]], prometheus: Prometheus
) -> None:
    brokers, _ = cluster
    # A busy computer may fire other alerts, for example for stalled event loops.
    wait_for("quiet", lambda: not prometheus.firing() & OF_A_DEAD_BROKER)
    victim = brokers.nodes[3]
    victim.kill()
    wait_for("alerts", lambda: prometheus.firing() >= OF_A_DEAD_BROKER)
    # Partitions that still have a leader and enough replicas fire no alert.
    assert not prometheus.firing() & {"OfflinePartitions", "UnderMinIsrPartitions", "OfflineLogDirectory"}
    victim.start()
    wait_for("all clear", lambda: not prometheus.firing() & OF_A_DEAD_BROKER)


@pytest.mark.usefixtures("load")
def test_every_dashboard_panel_has_data(cluster: tuple[RealCluster, dict[int, int]], prometheus: Prometheus) -> None:
    # Cause an error, because errors have a panel too.
    admin = AdminClient({"bootstrap.servers": cluster[0].bootstrap})
    refused = admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].exception(60)
    assert isinstance(refused, KafkaException)
    assert refused.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    variables = {f"${one['name']}": ".*" for one in dashboard.get("templating", {}).get("list", [])}

    def empty() -> list[str]:
        found = []
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expression = (
                    target["expr"].replace("$__rate_interval", "10s").replace("[5m]", "[10s]").removesuffix("> 0")
                )
                for name, value in variables.items():
                    expression = expression.replace(name, value)
                if not prometheus.query("query", query=expression)["result"]:
                    found.append(f"{panel['title']}: {expression}")
        return found

    # A rate needs two scrapes within ten seconds, and Prometheus and the brokers share two cores with other tests.
    deadline = Patience(60)
    while (left := empty()) and not deadline.is_over():
        time.sleep(0.2)
    assert not left, "\n".join(left)
