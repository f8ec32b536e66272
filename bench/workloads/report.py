"""Reports of the workloads: a table in the terminal and a section of docs/benchmarks.md."""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import commit_load, transaction_load
from bench.loads import WARM_UP_ROUNDS
from bench.page import WORKLOADS_SECTION, replace_section
from bench.products import KAFKA, ODRADEK
from bench.report import number
from bench.workloads.figures import cpu_seconds_per_gb, missed_targets
from bench.workloads.limits import LOOPS, PREAD_SEND, SENDFILE, WRITEV
from bench.workloads.rounds import Measured
from bench.workloads.rows import CONSUME_1024, MEMORY_MB_MAX, PRODUCE_1024, ROWS, Row, Target
from bench.workloads.sides import TWO_ODRADEK

MULTIPLE_MAX: Final = 2.0
"""Of the CPU time of the bare loop, for consuming."""
_Cells = list[str]


def save(measured: Measured, machine: dict[str, str], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"machine": machine, **asdict(measured)}, indent=2) + "\n")


def print_tables(measured: Measured, console: Console) -> None:
    for title, (heads, lines) in _tables(measured).items():
        table = Table(title=title)
        for at, head in enumerate(heads):
            table.add_column(head, justify="right" if at else "left")
        for line in lines:
            table.add_row(*line)
        if lines:
            console.print(table)


def write_section(measured: Measured, machine: dict[str, str], page: Path) -> None:
    tables = {title: markdown_table(*table) for title, table in _tables(measured).items()}
    text = _SECTION.format(
        one=tables[ONE_TITLE],
        two=tables[TWO_TITLE],
        memory_table=tables[MEMORY_TITLE],
        limits=tables[LIMITS_TITLE],
        fetch=tables[FETCH_TITLE],
        idle=tables[IDLE_TITLE],
        rounds=max(len(samples) for row in measured.figures.samples.values() for samples in row.values()),
        warm_ups=WARM_UP_ROUNDS,
        groups=commit_load.GROUPS,
        producers=transaction_load.PRODUCERS,
        memory_max=f"{MEMORY_MB_MAX:g}",
        **machine,
    )
    replace_section(page, WORKLOADS_SECTION, text)


ONE_TITLE, TWO_TITLE = "Odradek and Apache Kafka", "two Odradek brokers and one Kafka broker, on two cores"
MEMORY_TITLE, LIMITS_TITLE = "memory of a broker, in MB", "bare loops"
FETCH_TITLE, IDLE_TITLE = "a large Fetch response", "idle connections"


def _tables(measured: Measured) -> dict[str, tuple[_Cells, list[_Cells]]]:
    found = [row for row in ROWS if row.key in measured.figures.samples]
    heads = ["workload", "Kafka", "Odradek", "rate", "target", "Kafka", "Odradek", "CPU", "target", ""]
    return {
        ONE_TITLE: (heads, [_line(measured, row, ODRADEK) for row in found if ODRADEK in row.sides]),
        TWO_TITLE: (heads, [_line(measured, row, TWO_ODRADEK) for row in found if TWO_ODRADEK in row.sides]),
        MEMORY_TITLE: (
            ["workload", "Kafka, peak", "after", "Odradek, peak", "after", "two brokers, peak", "after"],
            [_memory(measured, row) for row in found],
        ),
        LIMITS_TITLE: (["loop", "CPU per GB", "Odradek", "multiple", "target", ""], list(_limits(measured))),
        FETCH_TITLE: (
            ["broker", "first byte", "last byte", "response"],
            [
                [_title(key), f"{one.first_byte_ms:.2f} ms", f"{one.last_byte_ms:.1f} ms", f"{one.response_mb:.1f} MB"]
                for key, one in measured.arrivals.items()
            ],
        ),
        IDLE_TITLE: (
            ["broker", "connections", "memory before", "with", "per connection", "CPU before", "with"],
            [
                [
                    _title(key),
                    f"{one.connections:,}",
                    f"{one.before_mb:,.1f} MB",
                    f"{one.with_mb:,.1f} MB",
                    f"{one.kb_of_a_connection:.1f} kB",
                    f"{one.before_core:.1%} of a core",
                    f"{one.with_core:.1%} of a core",
                ]
                for key, one in measured.idle.items()
            ],
        ),
    }


def _line(measured: Measured, row: Row, side: str) -> _Cells:
    figures, target = measured.figures, row.targets.get(side, Target())
    missed = missed_targets(figures, row, side)
    return [
        row.title,
        *(f"{number(figures.rate(row.key, key))} {row.unit}/s" for key in (KAFKA, side)),
        f"{figures.rate_ratio(row.key, side):.2f} ×",
        "" if target.rate_min is None else f"≥ {target.rate_min:g} ×",
        *(f"{number(figures.cpu_us(row.key, key))} µs" for key in (KAFKA, side)),
        f"{figures.cpu_ratio(row.key, side):.2f} ×",
        "" if target.cpu_max is None else f"≤ {target.cpu_max:g} ×",
        f"**missed**: {', '.join(missed)}" if missed else "met",
    ]


def _memory(measured: Measured, row: Row) -> _Cells:
    cells = [row.title]
    for side in (KAFKA, ODRADEK, TWO_ODRADEK):
        of: Sequence[Callable[[str, str], float]] = (measured.figures.peak_mb, measured.figures.resident_mb)
        cells += [number(one(row.key, side)) if side in row.sides else "" for one in of]
    return cells


def _limits(measured: Measured) -> Iterator[_Cells]:
    if not measured.limits:
        return
    rounds = {loop: [one[loop] for one in measured.limits] for loop in LOOPS}
    found = {loop: statistics.median(values) for loop, values in rounds.items()}
    rows = {row.key: row for row in ROWS}
    for loop, key, target in (
        (SENDFILE, CONSUME_1024, MULTIPLE_MAX),
        (PREAD_SEND, CONSUME_1024, MULTIPLE_MAX),
        (WRITEV, PRODUCE_1024, None),
    ):
        cells = [loop, f"{found[loop]:.2f} s ({min(rounds[loop]):.2f}–{max(rounds[loop]):.2f})"]
        if key in measured.figures.samples:
            used = cpu_seconds_per_gb(measured.figures.cpu_us(key, ODRADEK), rows[key].value_bytes)
            multiple = used / found[loop]
            cells += [f"{used:.2f} s ({rows[key].title})", f"{multiple:.1f} ×"]
            cells += ["", ""] if target is None else [f"≤ {target:g} ×", "met" if multiple <= target else "**missed**"]
        yield [*cells, *[""] * (6 - len(cells))]


def _title(side: str) -> str:
    return {KAFKA: "Apache Kafka", ODRADEK: "Odradek"}[side]


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = f"|---|{'---:|' * (len(heads) - 1)}"
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


_SECTION = """
Rate, and user and system time of all threads of all brokers per record, request, commit or transaction; {cores} cores,
{memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1 for each broker.
Commit {commit}. Medians of {rounds} rounds after {warm_ups} warm-up rounds. `make bench ARGS=--docs` writes this
section.

{one}

Two Odradek brokers, one per core, and one Apache Kafka broker that may use both cores:

{two}

- All clusters of a table run side by side. In each round, every cluster runs the same load in turn; every second round
  is in reverse order. The ratios are medians of the ratios of a round. Clients and brokers share the cores.
- Topics have 12 partitions. Kafka's tools run with their defaults, except batches of 64 KiB, 5 ms linger, acks=all and
  idempotence; confluent-kafka with batches of 1 MB and acks=all. The consumer's rate is its `fetch.nMsg.sec`.
- Three brokers are combined nodes, with three replicas and `min.insync.replicas=2` for all topics. The internal topics
  have 50 partitions.
- Small requests are Produce requests with one record of 100 bytes on plain sockets. Two brokers can only be compared
  with one if the client uses two connections.
- Commits: {groups} groups on separate connections, with five OffsetCommit requests of one offset in flight on each;
  every response is checked.
- Transactions: {producers} producers, each with one transaction after the other: a Produce request with one record of
  100 bytes, and EndTxn, as clients of `transaction.version` 2 send them. Retriable errors are retried after 20 ms, as
  in the Java client.
- Krabka, a broker in Rust, was not measured in this run.

### Memory

Resident memory of a broker with its workers, in MB: the highest value during the measured rounds, and the median after
them. With several brokers, that of the largest. The target is less than {memory_max} MB for each Odradek broker.

{memory_table}

### Physical limits

CPU time per 10⁹ bytes of loops that do nothing else, in the same run: reading from the page cache and sending over
loopback, 1 MiB at a time, and writing batches of 64 KiB to a new file, 16 at a time. Medians, with lowest and highest
values in brackets: writing is cheaper if the kernel has memory that was used recently. The multiple is Odradek's CPU
time per 10⁹ bytes of record values, divided by that of the loop.

{limits}

### First byte of a large response

A Fetch request of 5 MiB of each of 12 partitions on a plain socket: medians until the first and the last byte arrive.

{fetch}

### Idle connections

Connections that have sent ApiVersions and then nothing. Memory and CPU time of the broker, after all workloads on one
broker, before and while they are open. Apache Kafka's heap has its full size from the start.

{idle}
"""
