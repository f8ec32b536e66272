"""Measures what many replicas cost three idle brokers: start time, memory and CPU time."""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.table import Table

from bench.page import DOCS, PAGE, REPLICAS_SECTION, replace_section
from bench.products import NODES, ODRADEK, data_directory, wide_console
from bench.report import number
from bench.results import RESULTS, describe_machine
from odradek.client.admin import Admin
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of, wait_for

COUNTS = (100, 500, 1000, 2000, 4000)
PARTITIONS_OF_A_TOPIC = 100
IDLE_S = 20.0
SETTLE_S = 5.0
WAIT_S_MAX = 120.0
START_S_MAX, MEMORY_MB_MAX, IDLE_CORE_MAX = 5.0, 300.0, 0.1
PICTURE = DOCS / "images" / "replicas.png"
# Title, key, unit and target.
COLUMNS = (
    ("start after a clean shutdown", "start_s", "s", START_S_MAX),
    ("all replicas in sync", "in_sync_s", "s", None),
    ("memory per broker", "memory_mb", "MB", MEMORY_MB_MAX),
    ("share of a core when idle", "idle_core", "", IDLE_CORE_MAX),
    ("create", "create_s", "s", None),
    ("shut down", "stop_s", "s", None),
)

Costs = dict[int, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.replicas", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="replicas per broker")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md and its chart")
    options = parser.parse_args()
    console = wide_console()
    costs: Costs = {}
    for count in options.counts:
        costs[count] = _measure(count)
        found = ", ".join(f"{title} {number(costs[count][key])} {unit}".rstrip() for title, key, unit, _ in COLUMNS)
        console.print(f"{count:,} replicas: {found}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "replicas.json").write_text(json.dumps(costs, indent=2) + "\n")
    console.print(_table(costs))
    if options.docs:
        _draw(costs, PICTURE)
        rows = "\n".join(f"| {' | '.join(row)} |" for row in _rows(costs))
        titles = " | ".join(title for title, *_ in COLUMNS)
        rule = "---:|" * (len(COLUMNS) + 1)
        text = _SECTION.format(titles=titles, rule=rule, rows=rows, picture=PICTURE.name, **describe_machine())
        replace_section(PAGE, REPLICAS_SECTION, text)
    return 0 if all(one[key] <= target for one in costs.values() for _, key, _, target in COLUMNS if target) else 1


def _measure(count: int) -> dict[str, float]:
    with data_directory(ODRADEK) as directory, real_cluster(directory, roles_of(combined=NODES)) as cluster:
        values = {"create_s": _create(cluster, count)}
        began_at = time.monotonic()
        with ThreadPoolExecutor(len(NODES)) as threads:
            list(threads.map(lambda node: node.stop(), cluster.nodes.values()))
        values["stop_s"] = time.monotonic() - began_at
        began_at = time.monotonic()
        cluster.start()
        wait_for("a leader everywhere", lambda: _have_leaders(cluster), WAIT_S_MAX)
        values["start_s"] = time.monotonic() - began_at
        wait_for("every replica in sync", lambda: _are_in_sync(cluster), WAIT_S_MAX)
        values["in_sync_s"] = time.monotonic() - began_at
        time.sleep(SETTLE_S)
        before = [node.cpu_seconds for node in cluster.nodes.values()]
        time.sleep(IDLE_S)
        used = [node.cpu_seconds - began for node, began in zip(cluster.nodes.values(), before, strict=True)]
        values["idle_core"] = max(used) / IDLE_S
        values["memory_mb"] = max(node.resident_bytes for node in cluster.nodes.values()) / 1e6
        return values


def _create(cluster: RealCluster, count: int) -> float:
    began_at = time.monotonic()
    with cluster.client(timeout_s=WAIT_S_MAX) as client:
        for first in range(0, count, PARTITIONS_OF_A_TOPIC):
            partitions = min(PARTITIONS_OF_A_TOPIC, count - first)
            Admin(client).create_topic(f"topic-{first}", partitions=partitions, replication_factor=len(NODES))
    wait_for("every replica in sync", lambda: _are_in_sync(cluster), WAIT_S_MAX)
    return time.monotonic() - began_at


def _have_leaders(cluster: RealCluster) -> bool:
    """Whether every broker knows a leader for every partition."""
    for node in cluster.brokers:
        with cluster.client(node.node_id) as client:
            topics = client.layout(None).topics.values()
            if any(one.leader < 0 for topic in topics for one in topic.partitions):
                return False
    return True


def _are_in_sync(cluster: RealCluster) -> bool:
    with cluster.client() as client:
        topics = client.layout(None).topics.values()
        return all(len(one.isr) == len(NODES) for topic in topics for one in topic.partitions)


def _rows(costs: Costs) -> list[list[str]]:
    return [
        [f"{count:,}", *(f"{number(one[key])} {unit}".rstrip() for _, key, unit, _ in COLUMNS)]
        for count, one in costs.items()
    ]


def _table(costs: Costs) -> Table:
    table = Table(title="Cost of replicas on idle brokers")
    for title in ("replicas", *(title for title, *_ in COLUMNS)):
        table.add_column(title, justify="right")
    for row in _rows(costs):
        table.add_row(*row)
    return table


def _draw(costs: Costs, file: Path) -> None:
    """Cost by number of replicas; the dashed lines are the targets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [column for column in COLUMNS if column[3] is not None]
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(12, 3.6), dpi=150)
    for axes, (title, key, unit, target) in zip(all_axes, panels, strict=True):
        axes.plot(list(costs), [one[key] for one in costs.values()], marker="o", color="#2a9d8f")
        axes.axhline(target, color="#d1495b", linestyle="--", linewidth=1.2)
        axes.set_ylim(bottom=0)
        axes.set_title(f"{title}{f', {unit}' if unit else ''}", fontsize=10, loc="left")
        axes.set_xlabel("replicas per broker", fontsize=8.5)
        axes.grid(alpha=0.25, linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)


_SECTION = """
![Cost of replicas](images/{picture})

Three combined nodes on one computer, topics of 100 partitions with three replicas each; {cores} cores, {memory}, Python
{python}. Commit {commit}. `make bench-replicas ARGS=--docs` writes this section.

| replicas per broker | {titles} |
|{rule}
{rows}

- All three brokers stop and start at the same time. They count as started when every broker knows a leader for every
  partition; the target is 5 s for 4,000 replicas.
- Memory and CPU time are those of the broker with the highest values, over 20 s without requests; the targets are
  300 MB and a tenth of a core.
"""


if __name__ == "__main__":
    sys.exit(main())
