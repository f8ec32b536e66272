"""Prometheus itself watches three brokers under load: the alerts that are shipped fire when one is killed, and resolve.

Their patience is cut to a second: how long to wait before somebody is woken is not what is tried here.
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
from confluent_kafka import Consumer, Producer
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

    def ask(self, path: str, **parameters: str) -> Any:
        answer = get(self.port, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["data"]

    def firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def scraped(self) -> int:
        """How many nodes."""
        return sum(one["health"] == "up" for one in self.ask("targets")["activeTargets"])


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
    impatient = re.sub(r"for: \w+", "for: 1s", (MONITORING / "alerts.yml").read_text())
    (directory / "alerts.yml").write_text(impatient)
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


def test_the_files_are_what_prometheus_takes(programs: tuple[str, str]) -> None:
    checked = subprocess.run(
        [programs[1], "check", "rules", str(MONITORING / "alerts.yml")], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked


@pytest.mark.usefixtures("load")
@pytest.mark.tier("proof")
def test_alerts_fire_when_a_broker_is_killed_and_resolve_when_it_is_back(
    cluster: tuple[RealCluster, dict[int, int]], prometheus: Prometheus
) -> None:
    brokers, _ = cluster
    # A busy machine may have its own: event loops that stall, for one.
    wait_for("quiet", lambda: not prometheus.firing() & OF_A_DEAD_BROKER)
    victim = brokers.nodes[3]
    victim.kill()
    wait_for("alerts", lambda: prometheus.firing() >= OF_A_DEAD_BROKER)
    # What has enough replicas and leaders still is no alarm.
    assert not prometheus.firing() & {"OfflinePartitions", "UnderMinIsrPartitions", "OfflineLogDirectory"}
    victim.start()
    wait_for("all clear", lambda: not prometheus.firing() & OF_A_DEAD_BROKER)


@pytest.mark.usefixtures("load")
def test_every_panel_of_the_dashboard_shows_something(
    cluster: tuple[RealCluster, dict[int, int]], prometheus: Prometheus
) -> None:
    # Errors have a panel too.
    refused = AdminClient({"bootstrap.servers": cluster[0].bootstrap}).create_topics([NewTopic(TOPIC, 3)])[TOPIC]
    assert refused.exception(60) is not None
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
                if not prometheus.ask("query", query=expression)["result"]:
                    found.append(f"{panel['title']}: {expression}")
        return found

    # A rate needs two scrapes within its ten seconds, and both sides of it share two cores with other tests.
    deadline = Patience(60)
    while (left := empty()) and not deadline.is_over():
        time.sleep(0.2)
    assert not left, "\n".join(left)
