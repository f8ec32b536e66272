"""Measures the failover after kill -9 of the active controller of three combined nodes, also for Apache Kafka.

The clusters of both products are started in turn. In each, the active controller is killed several times and restarted.
Measured is the time from the signal until one of the remaining nodes acknowledges a metadata change, in the default
configuration without other load.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from bench.page import FAILOVER_SECTION, PAGE, replace_section
from bench.products import PRODUCTS, TITLES, cluster_of_three, find_kafka, wide_console
from bench.results import RESULTS, describe_machine
from odradek.client.admin import Admin
from tests.cluster.failover import kill_and_time
from tests.cluster.real_cluster import RealCluster

TOPIC = "watched"
CLUSTERS = 2
KILLS = 5
WHOLE_S_MAX = 90.0
"""Apache Kafka rejects the registration of a killed broker until its session expires."""
MEDIAN_S_MAX, P99_S_MAX = 0.5, 1.0

Seconds = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.failover", description=__doc__)
    parser.add_argument(
        "--clusters", type=int, default=CLUSTERS, help=f"clusters of each product (default: {CLUSTERS})"
    )
    parser.add_argument("--kills", type=int, default=KILLS, help=f"kills in each cluster (default: {KILLS})")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    seconds: Seconds = {product: [] for product in PRODUCTS}
    for number in range(1, options.clusters + 1):
        for product in PRODUCTS:
            measured = _measure(product, libs, options.kills)
            seconds[product] += measured
            console.print(f"cluster {number} of {options.clusters}, {TITLES[product]}: {_milliseconds(measured)}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "failover.json").write_text(json.dumps(seconds, indent=2) + "\n")
    for product in PRODUCTS:
        console.print(f"{TITLES[product]}: {_row(seconds[product])}")
    if options.docs:
        replace_section(PAGE, FAILOVER_SECTION, _section(seconds))
    return 0 if statistics.median(seconds["odradek"]) <= MEDIAN_S_MAX else 1


def _measure(product: str, libs: Path, kills: int) -> list[float]:
    with cluster_of_three(product, libs) as cluster:
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=1, replication_factor=1)
        return [_kill(cluster, number) for number in range(kills)]


def _kill(cluster: RealCluster, number: int) -> float:
    victim = cluster.active_controller()
    seconds = kill_and_time(cluster, victim, TOPIC, 1_000_000 + number)
    victim.start()
    cluster.wait_until_whole(WHOLE_S_MAX)
    return seconds


def _milliseconds(seconds: list[float]) -> str:
    return ", ".join(f"{one * 1000:,.0f}" for one in seconds) + " ms"


def _row(seconds: list[float]) -> str:
    return (
        f"median {statistics.median(seconds) * 1000:,.0f} ms, "
        f"lowest {min(seconds) * 1000:,.0f}, highest {max(seconds) * 1000:,.0f}, {len(seconds)} kills"
    )


def _section(seconds: Seconds) -> str:
    rows = "\n".join(
        f"| {TITLES[product]} | {statistics.median(seconds[product]) * 1000:,.0f} ms "
        f"| {min(seconds[product]) * 1000:,.0f} ms | {max(seconds[product]) * 1000:,.0f} ms "
        f"| {len(seconds[product])} |"
        for product in PRODUCTS
    )
    return _SECTION.format(rows=rows, **describe_machine())


_SECTION = """
Three combined nodes in their default configuration, and kill -9 of the active controller: the time until one of the
remaining nodes acknowledges a metadata change. {cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka
{kafka} with a heap of 1 GiB and G1. Commit {commit}. `make bench-failover ARGS=--docs` writes this section.

| | median | lowest | highest | kills |
|---|---:|---:|---:|---:|
{rows}

- Clusters of both products run in turn on the same computer. As soon as the process is dead, every remaining broker
  receives the request on a connection that was already open; the first acknowledgement counts.
- A killed process closes its sockets, and its port refuses connections. Odradek's voters elect a new leader at once if
  a majority of them observes this. Apache Kafka's voters wait for `controller.quorum.fetch.timeout.ms` (2 s) and the
  following election. A computer that loses power or its network refuses nothing; then both wait equally long.
- `make chaos CONTROLLER_KILLS=100` checks the targets: 500 ms at the median and 1 s at the 99th percentile of 100 kills
  under a load of metadata changes.
"""


if __name__ == "__main__":
    sys.exit(main())
