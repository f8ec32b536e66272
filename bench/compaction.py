"""Measures the latency of produce and fetch while a broker compacts and loads a large `__consumer_offsets`.

Workers do both in processes of their own, so that the latency stays close to that of an idle broker, with and without
numba.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from rich.table import Table

from bench.loads import create_topic
from bench.page import COMPACTION_SECTION, PAGE, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import RESULTS, describe_machine
from tests import offsets_log
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import TOPIC_RESOURCE, alter_configs, fetch, produce

T = TypeVar("T")

MEGABYTES: Final = 1000
IDLE_SECONDS: Final = 10.0
PAUSE_S: Final = 0.002
TIMES_MAX: Final = 2.0
LOAD_TOPIC: Final = "load"
BROKERS: Final = {"with numba": OdradekProcess, "without numba": offsets_log.WithoutNumba}


class Latency(NamedTuple):
    """In milliseconds."""

    produce_p50: float
    produce_p99: float
    fetch_p50: float
    fetch_p99: float
    max: float


Phases = dict[str, Latency]


def measure(node: OdradekProcess, is_over: Callable[[], bool]) -> Latency:
    produced: list[float] = []
    fetched: list[float] = []
    with RawConnection(node.port) as connection:
        while not (is_over() and len(fetched) > 200):
            seconds, sent = _timed(node, lambda: produce(connection, LOAD_TOPIC, b"x" * 100))
            produced.append(1000 * seconds)
            seconds, _ = _timed(node, partial(fetch, connection, LOAD_TOPIC, sent.offset))
            fetched.append(1000 * seconds)
            time.sleep(PAUSE_S)
    return Latency(*_quantiles(produced), *_quantiles(fetched), max(*produced, *fetched))


def _timed(node: OdradekProcess, send: Callable[[], T]) -> tuple[float, T]:
    """Without the time that the event loop and this process waited for a processor, if the computer is busy."""
    waited = _run_queue_seconds(node.pid)
    began = time.perf_counter()
    result = send()
    seconds = time.perf_counter() - began
    return max(0.0, seconds - (_run_queue_seconds(node.pid) - waited)), result


def _run_queue_seconds(pid: int) -> float:
    # The event loop is the first thread of its process.
    files = (Path(f"/proc/{pid}/task/{pid}/schedstat"), Path("/proc/self/schedstat"))
    return sum(int(file.read_text().split()[1]) for file in files) / 1e9


def _quantiles(values: list[float]) -> tuple[float, float]:
    return statistics.median(values), statistics.quantiles(values, n=100)[98]


def run(kind: type[OdradekProcess], size_bytes: int) -> Phases:
    with data_directory(ODRADEK) as directory:
        node = kind(directory, properties=offsets_log.PROPERTIES)
        try:
            node.start()
            create_topic(node.bootstrap, LOAD_TOPIC)
            offsets_log.create_offsets_topic(node)
            node.stop()
            offsets_log.fill(node, size_bytes)
            node.start()
            return _run_phases(node)
        finally:
            node.kill()


def _run_phases(node: OdradekProcess) -> Phases:
    found = {"loading": measure(node, lambda: offsets_log.has_loaded(node))}
    end = time.monotonic() + IDLE_SECONDS
    found["idle"] = measure(node, lambda: time.monotonic() > end)
    with RawConnection(node.port) as connection:
        alter_configs(connection, TOPIC_RESOURCE, offsets_log.TOPIC, {"min.cleanable.dirty.ratio": "0.01"})
    found["compaction"] = measure(node, lambda: offsets_log.has_compacted(node))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.compaction", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help=f"size of the log (default: {MEGABYTES})")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    console = wide_console()
    phases = {title: run(kind, options.megabytes * 1_000_000) for title, kind in BROKERS.items()}
    heads = [name.replace("_", " ") for name in Latency._fields]
    rows = list(_rows(phases))
    table = Table("", *(f"{head} ms" for head in heads))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    worst = max(map(times_idle, phases.values()))
    console.print(_verdict(worst))
    RESULTS.mkdir(exist_ok=True)
    values = {title: {name: one._asdict() for name, one in found.items()} for title, found in phases.items()}
    (RESULTS / "compaction.json").write_text(json.dumps(values, indent=2) + "\n")
    if options.docs:
        text = _SECTION.format(
            heads=" | ".join(heads),
            rule="---:|" * len(heads),
            rows="\n".join(f"| {' | '.join(row)} |" for row in rows),
            verdict=_verdict(worst),
            megabytes=f"{options.megabytes:,}",
            **describe_machine(),
        )
        replace_section(PAGE, COMPACTION_SECTION, text)
    return 0 if worst <= TIMES_MAX else 1


def times_idle(phases: Phases) -> float:
    """The higher p99, of produce or fetch, during compaction, compared with that of the idle broker."""
    idle, busy = phases["idle"], phases["compaction"]
    return max(busy.produce_p99 / idle.produce_p99, busy.fetch_p99 / idle.fetch_p99)


def _rows(phases: dict[str, Phases]) -> Iterator[list[str]]:
    for title, found in phases.items():
        for phase, latency in found.items():
            yield [f"{title}, {phase}", *(f"{value:.2f}" for value in latency)]


def _verdict(worst: float) -> str:
    met = "met" if worst <= TIMES_MAX else "missed"
    return f"p99 during compaction: {worst:.2f} × that of an idle broker; target ≤ {TIMES_MAX:g} ×: {met}"


_SECTION = """
Latency of produce and fetch, in ms, while a broker loads and compacts a `__consumer_offsets` of {megabytes} MB, and
while it is idle; {cores} cores, {memory}, Python {python}. Commit {commit}. `make bench-compaction ARGS=--docs` writes
this section.

| | {heads} |
|---|{rule}
{rows}

{verdict}.

- One client sends a Produce request with one record of 100 bytes, fetches it, and pauses for 2 ms. The time that the
  event loop and the client waited for a processor is not included, because the workers share the cores with them.
- Without numba, the worker interprets the records in Python.
"""


if __name__ == "__main__":
    sys.exit(main())
