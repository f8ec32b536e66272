"""Measures the failover after kill -9 of a partition's leader in a cluster of three combined nodes.

Apache Kafka is measured in the same run. Each broker leads one partition with three replicas, acks=all and
`min.insync.replicas=2`. Measured from the signal: when the new leader acknowledges a record sent on a separate
connection, and how long each of three continuous producers receives no acknowledgement. Every second kill hits the
active controller.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from bench.gaps import QUICK_SETTINGS, ConfluentGaps, GapMeter, JavaGaps
from bench.page import BROKER_FAILOVER_SECTION, PAGE, replace_section
from bench.products import KAFKA, NODES, ODRADEK, PRODUCTS, TITLES, cluster_of_three, find_kafka, wide_console
from bench.results import RESULTS, describe_machine
from odradek.base.errors import ErrorCode
from odradek.client.admin import Admin
from odradek.client.connection import Connection
from odradek.client.reassignments import Reassignments
from odradek.wire.schemas import Message, Schema
from tests.apis import Api
from tests.cluster.real_cluster import Member, RealCluster, wait_for
from tests.record_batches import TestRecord, batch

TOPIC = "watched"
KILLS = {KAFKA: 4, ODRADEK: 20}
NEW_LEADER, QUICK, DEFAULT, JAVA = "new leader", "confluent-kafka, quick", "confluent-kafka, default", "Java, default"
MEASURES = (NEW_LEADER, QUICK, DEFAULT, JAVA)
# Targets for a leader that is not, and that is, the active controller.
TARGETS_S = {NEW_LEADER: (0.6, 1.2), QUICK: (1.0, 1.5)}
WAIT_S_MAX = 120.0
STEADY_S = 2.0
RETRY_S = 0.005
# Later versions identify topics by ID.
LAST_PRODUCE_VERSION_WITH_NAMES = 12

# One kill: whether it hit the active controller, and the seconds of every measure.
Kill = tuple[bool, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.broker_failover", description=__doc__)
    for product, count in KILLS.items():
        parser.add_argument(f"--{product}-kills", type=int, default=count, help=f"number of kills (default: {count})")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    kills: dict[str, list[Kill]] = {}
    for product in PRODUCTS:
        count = getattr(options, f"{product}_kills")
        if count:
            kills[product] = _measure(product, libs, count, console)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "broker-failover.json").write_text(json.dumps(kills, indent=2) + "\n")
    for row in _rows(kills):
        console.print(row)
    if options.docs:
        text = _SECTION.format(rows="\n".join(_rows(kills)), **describe_machine())
        replace_section(PAGE, BROKER_FAILOVER_SECTION, text)
    return 0 if all(_is_met(kill) for kill in kills.get(ODRADEK, [])) else 1


def _measure(product: str, libs: Path, kills: int, console: Console) -> list[Kill]:
    measured: list[Kill] = []
    with cluster_of_three(product, libs) as cluster:
        with cluster.client() as client:
            settings = {"min.insync.replicas": "2"}
            Admin(client).create_topic(TOPIC, partitions=len(NODES), replication_factor=len(NODES), configs=settings)
        with _producers(cluster, libs) as meters:
            for number in range(kills):
                kill = _kill(cluster, meters, with_controller=number % 2 == 1)
                measured.append(kill)
                seconds = ", ".join(f"{name} {value:.2f} s" for name, value in kill[1].items())
                also = ", active controller" if kill[0] else ""
                console.print(f"{TITLES[product]}, kill {number + 1} of {kills}{also}: {seconds}")
    return measured


@contextmanager
def _producers(cluster: RealCluster, libs: Path) -> Iterator[dict[str, GapMeter]]:
    meters: dict[str, GapMeter] = {
        QUICK: ConfluentGaps(cluster.bootstrap, TOPIC, len(NODES), **QUICK_SETTINGS),
        DEFAULT: ConfluentGaps(cluster.bootstrap, TOPIC, len(NODES)),
        JAVA: JavaGaps(libs, cluster.bootstrap, TOPIC, len(NODES)),
    }
    try:
        yield meters
    finally:
        for meter in meters.values():
            meter.stop()


def _kill(cluster: RealCluster, meters: dict[str, GapMeter], *, with_controller: bool) -> Kill:
    controller = cluster.active_controller()
    victim = controller if with_controller else next(node for node in cluster.running if node is not controller)
    partition = next(index for index, leader in _leaders(cluster).items() if leader == victim.node_id)
    _wait_until_steady(meters)
    for meter in meters.values():
        meter.reset()
    began_at = time.monotonic()
    victim.kill()
    serves = _wait_for_new_leader(cluster, victim, partition) - began_at
    _wait_until_steady(meters)
    gaps = {name: meter.gap_s(partition) for name, meter in meters.items()}
    victim.start()
    cluster.wait_until_whole(WAIT_S_MAX)
    wait_for("preferred leaders", lambda: _elect_preferred_leaders(cluster), WAIT_S_MAX)
    return with_controller, {NEW_LEADER: serves, **gaps}


def _wait_until_steady(meters: dict[str, GapMeter]) -> None:
    """Waits until every producer has received acknowledgements continuously for a while."""
    began_at = steady_since = time.monotonic()
    while time.monotonic() - steady_since < STEADY_S:
        assert time.monotonic() - began_at < WAIT_S_MAX, "the producers receive no acknowledgements"
        time.sleep(0.05)
        if any(meter.waiting_s() > 0.5 for meter in meters.values()):
            steady_since = time.monotonic()


def _leaders(cluster: RealCluster) -> dict[int, int]:
    with cluster.client() as client:
        return {one.id: one.leader for one in client.topics([TOPIC])[TOPIC].partitions}


def _elect_preferred_leaders(cluster: RealCluster) -> bool:
    """Once all replicas are in sync, makes every broker lead one partition again."""
    with cluster.client() as client:
        if any(len(one.isr) < len(NODES) for one in client.topics([TOPIC])[TOPIC].partitions):
            return False
        Reassignments(client).elect_preferred(None)
    return set(_leaders(cluster).values()) == set(NODES)


def _wait_for_new_leader(cluster: RealCluster, victim: Member, partition: int) -> float:
    """Returns the time at which one of the other brokers acknowledges a record; sends to both until then."""
    data = batch(TestRecord(b"x" * 100), timestamp=int(time.time() * 1000))
    deadline = time.monotonic() + WAIT_S_MAX
    connections = [
        Connection(node.address, client_id="failover-probe", timeout_s=WAIT_S_MAX)
        for node in cluster.running
        if node is not victim
    ]

    def build(chosen: Schema) -> Message:
        records = chosen.new("PartitionProduceData", index=partition, records=data)
        topic = chosen.new("TopicProduceData", name=TOPIC, partition_data=(records,))
        return chosen.new(
            "ProduceRequest", transactional_id=None, acks=-1, timeout=timedelta(seconds=5), topic_data=(topic,)
        )

    try:
        while time.monotonic() < deadline:
            for connection in connections:
                response = connection.request(
                    Api.PRODUCE, build, timeout_s=WAIT_S_MAX, highest=LAST_PRODUCE_VERSION_WITH_NAMES
                )
                if response.responses[0].partition_responses[0].error_code is ErrorCode.none:
                    return time.monotonic()
            time.sleep(RETRY_S)
    finally:
        for connection in connections:
            connection.close()
    raise AssertionError("no broker serves the partition")


def _is_met(kill: Kill) -> bool:
    with_controller, seconds = kill
    return all(seconds[name] <= targets[with_controller] for name, targets in TARGETS_S.items())


def _rows(kills: dict[str, list[Kill]]) -> Iterator[str]:
    for with_controller, what in ((False, "broker"), (True, "broker and active controller")):
        for name in MEASURES:
            cells = [f"{what}: {name}"]
            for product in PRODUCTS:
                seconds = [values[name] for also, values in kills.get(product, []) if also is with_controller]
                cells.append(_text(seconds))
            targets = TARGETS_S.get(name)
            cells.append("" if targets is None else f"≤ {targets[with_controller]:g} s each time")
            yield f"| {' | '.join(cells)} |"


def _text(seconds: list[float]) -> str:
    if not seconds:
        return "not measured"
    if len(seconds) == 1:
        return f"{seconds[0]:.2f} s (once)"
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f}, {len(seconds)} times)"


_SECTION = """
Three combined nodes in their default configuration, a topic with three replicas and `min.insync.replicas=2`, acks=all,
and kill -9 of the broker that leads a partition. {cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka
{kafka} with a heap of 1 GiB and G1. Commit {commit}. `make bench-broker-failover ARGS=--docs` writes this section.

| killed broker: measure | Apache Kafka | Odradek | target |
|---|---|---|---|
{rows}

- *New leader*: from the signal until one of the remaining brokers acknowledges a record of the partition. Both receive
  requests continuously on separate connections.
- The others: the longest time in which a producer receives no acknowledgement of the partition. *Quick* is
  confluent-kafka with `retry.backoff.ms=20`, `retry.backoff.max.ms=50`, `reconnect.backoff.ms=20` and
  `reconnect.backoff.max.ms=100`. Medians, with lowest and highest values in brackets.
- A killed process refuses connections, which reveals its death early (`broker.disconnect.grace.ms`). A computer that
  loses power or its network refuses nothing; then `broker.session.timeout.ms` applies, as with Apache Kafka.
"""


if __name__ == "__main__":
    sys.exit(main())
