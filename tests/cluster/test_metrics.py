"""Metrics of three brokers while one is down, and `odradek cluster balance`, which queries all of them."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.metrics_scrape import Scrape, scrape
from tests.node_process import free_ports
from tests.wire.up_process import call

PROPERTIES = {
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "1",
}
TOPIC = "watched"
REPLICAS = "kafka_server_replicamanager"
CONTROLLER = "kafka_controller_kafkacontroller"


class Observed:
    def __init__(self, cluster: RealCluster, ports: dict[int, int]) -> None:
        self.cluster = cluster
        self.ports = ports

    def scrapes(self, *node_ids: int) -> dict[int, Scrape]:
        return {node_id: scrape(self.ports[node_id]) for node_id in node_ids or self.ports}

    def sum(self, name: str, *node_ids: int, **labels: str) -> float:
        return sum(one(name, **labels) for one in self.scrapes(*node_ids).values())

    def values(self, name: str, **labels: str) -> set[float]:
        return {one(name, **labels) for one in self.scrapes().values()}


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    # The third broker has no metrics endpoint.
    ports = dict(zip((1, 2), free_ports(2), strict=True))
    with real_cluster(
        tmp_path_factory.mktemp("metrics"),
        dict.fromkeys((1, 2, 3), COMBINED),
        properties=PROPERTIES,
        properties_of={node_id: {"http.address": f"127.0.0.1:{port}"} for node_id, port in ports.items()},
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        assignment = [[1, 2, 3], [2, 3, 1], [1, 3, 2]]
        admin.create_topics([NewTopic(TOPIC, 3, replica_assignment=assignment)])[TOPIC].result(20)
        yield Observed(cluster, ports)


def write(cluster: RealCluster, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0})
    for _ in range(count):
        producer.produce(TOPIC, b"x" * 1000, partition=partition)
    assert producer.flush(30) == 0


def balance(cluster: RealCluster) -> dict[str, Any]:
    finished = call("cluster", "balance", "-b", cluster.bootstrap, "--format", "json")
    assert finished.returncode == 0, finished
    described: dict[str, Any] = json.loads(finished.stdout)
    return described


def test_leader_and_followers_count_bytes_in_and_replication_bytes(observed: Observed) -> None:
    write(observed.cluster, 1000)
    leader, follower = (observed.scrapes()[node_id] for node_id in (1, 2))
    name = "kafka_server_brokertopicmetrics"
    written = leader(f"{name}_bytesin_total", topic=TOPIC)
    assert written > 1_000_000
    assert leader(f"{name}_messagesin_total", topic=TOPIC) == 1000
    assert leader(f"{name}_replicationbytesout_total") == 2 * written
    assert leader(f"{name}_bytesout_total") == 0
    assert follower(f"{name}_replicationbytesin_total") == written
    assert follower(f"{name}_bytesin_total", topic=TOPIC) == 0
    assert leader("kafka_network_requestmetrics_requests_total", request="FetchFollower", version="17") > 0
    in_sync = "kafka_cluster_partition_insyncreplicascount"
    wait_for("all in sync", lambda: observed.sum(in_sync, 1, topic=TOPIC, partition="0") == 3)
    wait_for("three partitions", lambda: observed.sum(f"{CONTROLLER}_globalpartitioncount", 1) == 3)


def test_cluster_balance_shows_rates_and_brokers_without_metrics(observed: Observed) -> None:
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            write(observed.cluster, 300)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        wait_for("rates", lambda: bool(balance(observed.cluster)["hottest"]))
        described = balance(observed.cluster)
    finally:
        stop.set()
        writer.join()
    first, second, third = described["brokers"]
    assert first["bytes_in_per_second"] > 10_000
    assert second["bytes_in_per_second"] == 0
    assert second["replication_bytes_in_per_second"] > 10_000
    assert third["bytes_in_per_second"] is None
    assert described["skew"]["bytes_in_per_second"] == first["bytes_in_per_second"]
    hottest = described["hottest"][0]
    assert (hottest["topic"], hottest["partition"], hottest["leader"]) == (TOPIC, 0, 1)
    assert described["without_traffic"] == [{"broker": 3, "reason": "http.address is not set"}]
    shown = call("cluster", "balance", "-b", observed.cluster.bootstrap)
    assert "/s" in shown.stdout
    assert "Broker 3 reports no traffic: http.address is not set" in shown.stderr


def test_metrics_show_a_dead_broker_and_isr_expansion_after_its_restart(observed: Observed) -> None:
    cluster = observed.cluster
    wait_for("all replicas in sync", lambda: observed.sum(f"{REPLICAS}_underreplicatedpartitions") == 0)
    before = observed.sum(f"{REPLICAS}_isrexpands_total")
    cluster.nodes[3].kill()
    wait_for("under-replicated partitions", lambda: observed.sum(f"{REPLICAS}_underreplicatedpartitions") == 3)
    assert observed.sum(f"{REPLICAS}_atminisrpartitioncount") == 0
    wait_for("the fenced broker count on all nodes", lambda: observed.values(f"{CONTROLLER}_fencedbrokercount") == {1})
    state = f"{CONTROLLER}_brokerregistrationstate"
    wait_for("the registration state on all nodes", lambda: observed.values(state, broker="3") == {10})
    assert observed.sum(f"{CONTROLLER}_offlinepartitionscount") == 0
    wait_for("its state", lambda: {one["broker"]: one["state"] for one in balance(cluster)["brokers"]}[3] == "fenced")
    cluster.start_the_dead()
    wait_for("all replicas in sync", lambda: observed.sum(f"{REPLICAS}_underreplicatedpartitions") == 0)
    # A leader counts an ISR expansion when the controller responds; other brokers may see the new ISR earlier.
    wait_for("ISR expansions", lambda: observed.sum(f"{REPLICAS}_isrexpands_total") >= before + 3)
    assert observed.sum(f"{REPLICAS}_isrexpands_total") == before + 3


@pytest.mark.tier("proof")
def test_leader_elections_are_counted(observed: Observed) -> None:
    cluster = observed.cluster
    before = scrape(observed.ports[2])("odradek_leader_elections_total")
    led = scrape(observed.ports[2])(f"{REPLICAS}_leadercount")
    cluster.nodes[1].kill()
    wait_for("another leader", lambda: scrape(observed.ports[2])("odradek_leader_elections_total") >= before + 2)
    wait_for("it to lead", lambda: scrape(observed.ports[2])(f"{REPLICAS}_leadercount") > led)
    found = scrape(observed.ports[2])
    assert found("kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    assert found(f"{CONTROLLER}_preferredreplicaimbalancecount") >= 2
    cluster.start_the_dead()
    cluster.wait_until_whole()
