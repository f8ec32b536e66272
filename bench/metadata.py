"""Measures the cost of metadata for up to a million partitions. Does not need Apache Kafka.

For each size, a snapshot is written and loaded in a new process, which then applies changes of single topics.
`--quick` stops at a hundred thousand partitions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.metadata_cluster import METADATA_LEVEL, cluster_records
from bench.page import DOCS, METADATA_SECTION, PAGE, replace_section
from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS, describe_machine
from odradek.core.metadata.snapshot import encode_batches
from tests.components import ROOT

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
QUICK_SIZES = SIZES[:3]
PICTURE = DOCS / "images" / "metadata.png"

LOAD_SECONDS_MAX = 60
LOAD_MB_MAX = 2 * 2**30 / 1e6
CHANGE_MS_MAX = 10

Costs = dict[int, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.metadata", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only up to {QUICK_SIZES[-1]:,} partitions")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md and its chart")
    options = parser.parse_args()
    console = wide_console()
    costs: Costs = {}
    with tempfile.TemporaryDirectory(prefix="bench-metadata-") as directory, console.status("") as status:
        for size in QUICK_SIZES if options.quick else SIZES:
            status.update(f"{size:,} partitions")
            costs[size] = _measure(size, Path(directory, "snapshot"))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "metadata.json").write_text(json.dumps(costs, indent=2) + "\n")
    _print(costs, console)
    draw(costs, PICTURE if options.docs else RESULTS / "metadata.png")
    if options.docs:
        write_section(costs)
    return 0 if meets_targets(costs) else 1


def _measure(size: int, snapshot: Path) -> dict[str, float]:
    with snapshot.open("wb") as file:
        file.writelines(
            encode_batches(
                cluster_records(size), metadata_version=METADATA_LEVEL, epoch=7, last_timestamp_ms=0, now_ms=0
            )
        )
    command = [sys.executable, "-m", "bench.metadata_load", str(snapshot)]
    response = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    costs: dict[str, float] = json.loads(response)
    return costs


def meets_targets(costs: Costs) -> bool:
    return all(
        one["load_s"] < LOAD_SECONDS_MAX
        and one["peak_mb"] < LOAD_MB_MAX
        and max(one["create_topic_ms"], one["leader_change_ms"]) < CHANGE_MS_MAX
        for one in costs.values()
    )


COLUMNS = (
    ("snapshot", "snapshot_bytes", "MB", 1e-6),
    ("load", "load_s", "s", 1.0),
    ("load, CPU time", "load_processor_s", "s", 1.0),
    ("peak memory", "peak_mb", "MB", 1.0),
    ("create a topic of 10", "create_topic_ms", "ms", 1.0),
    ("change a leader", "leader_change_ms", "ms", 1.0),
    ("build the controller's index", "index_s", "s", 1.0),
    ("write a snapshot", "write_s", "s", 1.0),
    ("memory to write", "write_more_mb", "MB", 1.0),
)


def _rows(costs: Costs) -> list[list[str]]:
    return [
        [f"{size:,}", *(f"{number(one[key] * scale)} {unit}" for _, key, unit, scale in COLUMNS)]
        for size, one in costs.items()
    ]


def _print(costs: Costs, console: Console) -> None:
    table = Table(title="Cost of metadata")
    for title in ("partitions", *(title for title, *_ in COLUMNS)):
        table.add_column(title, justify="right")
    for row in _rows(costs):
        table.add_row(*row)
    console.print(table)


def draw(costs: Costs, file: Path) -> None:
    """Cost by number of partitions, on logarithmic scales; the dashed lines are the targets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = list(costs)
    panels = (
        ("load from a snapshot, s", LOAD_SECONDS_MAX, (("load_s", "#2a9d8f", ""),)),
        ("peak memory, MB", LOAD_MB_MAX, (("peak_mb", "#2a9d8f", ""),)),
        (
            "one change, ms",
            CHANGE_MS_MAX,
            (
                ("create_topic_ms", "#2a9d8f", "create a topic of 10"),
                ("leader_change_ms", "#e9a23b", "change a leader"),
            ),
        ),
    )
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(12, 3.8), dpi=150)
    for axes, (title, target, lines) in zip(all_axes, panels, strict=True):
        for key, colour, label in lines:
            axes.plot(sizes, [costs[size][key] for size in sizes], marker="o", color=colour, label=label)
        axes.axhline(target, color="#d1495b", linestyle="--", linewidth=1.2)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("partitions", fontsize=8.5)
        axes.grid(alpha=0.25, linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    all_axes[-1].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)


def write_section(costs: Costs) -> None:
    titles = " | ".join(title for title, *_ in COLUMNS)
    rows = "\n".join(f"| {' | '.join(row)} |" for row in _rows(costs))
    section = _SECTION.format(
        titles=titles, rule="---:|" * (len(COLUMNS) + 1), rows=rows, picture=PICTURE.name, **describe_machine()
    )
    replace_section(PAGE, METADATA_SECTION, section)


_SECTION = """
![Cost of metadata by number of partitions](images/{picture})

Topics of 50 partitions with three replicas on 30 brokers; {cores} cores, {memory}, Python {python}. Commit {commit}.
`make bench-metadata ARGS=--docs` writes this section.

| partitions | {titles} |
|{rule}
{rows}

- A new process loads the snapshot, as at a node's start: from the file's bytes, with verified checksums, to the image.
  Other work on the computer affects the seconds but not the CPU time. Peak memory is that of the whole process. The
  targets are 60 s and 2 GiB for a million partitions.
- A change is applied to the image as when its records are committed; medians of 200. The target is 10 ms. A change
  copies one topic's partitions and one bucket of the topics, so its cost does not grow with the image.
- A controller builds the index when it becomes active: which topics have a broker in their ISR.
- A thread writes the snapshot, 1 MiB at a time; the last column is the additional peak memory.
"""


if __name__ == "__main__":
    sys.exit(main())
