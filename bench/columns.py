"""Measures reading a topic's segments as Arrow columns, by size, codec and columns. Does not need Apache Kafka.

Each measurement runs in a new process on files in the page cache, after reading a few records to load the compiled
code. Rates are per second of one core's CPU time, so other work on the computer has little effect. `--quick` stops at
two million records.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from random import Random

from rich.table import Table

import odradek
from bench.page import COLUMNS_SECTION, DOCS, PAGE, replace_section
from bench.products import wide_console
from bench.report import number
from bench.results import RESULTS, describe_machine
from odradek.records.batch import parse_header, patch_offset_and_epoch
from odradek.records.builder import build_batch
from odradek.records.compression import Compression
from odradek.records.record import Record
from tests.components import ROOT

SIZES = (1_000_000, 5_000_000, 20_000_000, 50_000_000)
QUICK_SIZES = (500_000, 2_000_000)
CODECS = (Compression.NONE, Compression.ZSTD)
COLUMNS = ("key", "value", "offset", "timestamp")
TOPIC = "columns"

RECORDS_PER_BATCH = 160
SEGMENT_BYTES = 512 * 1024 * 1024
# Records of a hundred bytes: 8 for the key, 80 for the value, the rest is Kafka's overhead.
KEY_BYTES, VALUE_BYTES = 8, 80

TARGETS_PER_S = {Compression.NONE: 2e6, Compression.ZSTD: 1e6}
GROWTH_MB_MAX = 64.0

TITLES = ["codec", "records", "records/s per core", "target", "seconds", "peak MB"]
PICTURE = DOCS / "images" / "columns.png"

Costs = list[dict[str, float | str]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.columns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only up to {QUICK_SIZES[-1]:,} records")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of records")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md and its chart")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(_read(options.read)))
        return 0
    console = wide_console()
    costs: Costs = []
    with tempfile.TemporaryDirectory(prefix="bench-columns-") as directory, console.status("") as status:
        for codec in CODECS:
            for size in options.sizes or (QUICK_SIZES if options.quick else SIZES):
                status.update(f"{size:,} records, {codec.name.lower()}")
                costs.append(_measure(Path(directory, f"{codec.name}-{size}"), codec, size))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "columns.json").write_text(json.dumps(costs, indent=2) + "\n")
    table = Table(*TITLES)
    for row in _rows(costs):
        table.add_row(*row)
    console.print(table)
    draw(costs, PICTURE if options.docs else RESULTS / PICTURE.name)
    if options.docs:
        lines = [TITLES, ["---"] + ["---:"] * (len(TITLES) - 1), *_rows(costs)]
        text = "\n".join(f"| {' | '.join(connection)} |" for connection in lines)
        replace_section(PAGE, COLUMNS_SECTION, _SECTION.format(table=text, picture=PICTURE.name, **describe_machine()))
    return 0 if meets_targets(costs) else 1


def write_topic(directory: Path, codec: Compression, size: int) -> None:
    """Repeats sixteen different batches, because building millions of them would take longer than reading."""
    random = Random(codec)
    words = [b"user-%06d " % random.randrange(10**6) for _ in range(500)]

    def value() -> bytes:
        # Half repetitive text, half random bytes: zstd compresses it to slightly less than half.
        return (b"".join(random.choices(words, k=4)) + random.randbytes(40))[-VALUE_BYTES:]

    batches = [
        bytearray(
            build_batch(
                [
                    Record(random.randbytes(KEY_BYTES), value(), 1_700_000_000_000 + position)
                    for position in range(RECORDS_PER_BATCH)
                ],
                compression=codec,
            )
        )
        for _ in range(16)
    ]
    partition = directory / f"{TOPIC}-0"
    partition.mkdir(parents=True)
    offset = 0
    following = cycle(batches)
    while offset < size:
        with (partition / f"{offset:020d}.log").open("wb") as file:
            while offset < size and file.tell() < SEGMENT_BYTES:
                data = next(following)
                patch_offset_and_epoch(data, parse_header(data), offset, 0)
                file.write(data)
                offset += RECORDS_PER_BATCH


def _measure(directory: Path, codec: Compression, size: int) -> dict[str, float | str]:
    write_topic(directory, codec, size)
    command = [sys.executable, "-m", "bench.columns", "--read", str(directory)]
    response = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in directory.glob("*/*"):
        file.unlink()
    return {"codec": codec.name.lower(), **json.loads(response)}


def _read(directory: Path) -> dict[str, float]:
    for _ in odradek.read_topic(TOPIC, directory=directory, columns=COLUMNS, end=RECORDS_PER_BATCH):
        pass
    records = 0
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for batch in odradek.read_topic(TOPIC, directory=directory, columns=COLUMNS):
        records += batch.num_rows
    return {
        "records": records,
        "seconds": time.perf_counter() - begun_s,
        "cpu_seconds": time.process_time() - begun_cpu_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def rate(one: dict[str, float | str]) -> float:
    return float(one["records"]) / float(one["cpu_seconds"])


def meets_targets(costs: Costs) -> bool:
    for codec, target in TARGETS_PER_S.items():
        of_codec = [one for one in costs if one["codec"] == codec.name.lower()]
        peaks = [float(one["peak_mb"]) for one in of_codec]
        if min(map(rate, of_codec)) < target or max(peaks) - peaks[0] > GROWTH_MB_MAX:
            return False
    return True


def draw(costs: Costs, file: Path) -> None:
    """Rate and memory by topic size; the dashed lines are the targets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (rates, peaks) = pyplot.subplots(1, 2, figsize=(9, 3.8), dpi=150)
    for codec, colour in zip(CODECS, ("#2a9d8f", "#e9a23b"), strict=True):
        name = codec.name.lower()
        of_codec = [one for one in costs if one["codec"] == name]
        sizes = [float(one["records"]) for one in of_codec]
        rates.plot(sizes, [rate(one) / 1e6 for one in of_codec], marker="o", color=colour, label=name)
        rates.axhline(TARGETS_PER_S[codec] / 1e6, color=colour, linestyle="--", linewidth=1.2)
        peaks.plot(sizes, [float(one["peak_mb"]) for one in of_codec], marker="o", color=colour, label=name)
    for axes, title in ((rates, "million records/s per core"), (peaks, "peak memory, MB")):
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("records", fontsize=8.5)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(frameon=False, fontsize=8.5)
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


def _rows(costs: Costs) -> list[list[str]]:
    return [
        [
            str(one["codec"]),
            f"{one['records']:,}",
            number(rate(one)),
            f"{TARGETS_PER_S[Compression[str(one['codec']).upper()]]:,.0f}",
            *(number(float(one[name])) for name in ("seconds", "peak_mb")),
        ]
        for one in costs
    ]


_SECTION = """
![Rate and memory by size of a topic](images/{picture})

`odradek.read_topic` over a log directory, without Spark or brokers: records of 100 bytes, batches of 160, verified
checksums; key, value, offset and timestamp; {cores} cores, {memory}, Python {python}. Commit {commit}.
`make bench-columns ARGS=--docs` writes this section.

{table}

- Each row is a separate process that reads files from the page cache. Rates are per second of one core's CPU time;
  reading uses one core.
- Memory does not grow with the topic, because the reader holds only one batch of rows.
"""

if __name__ == "__main__":
    sys.exit(main())
