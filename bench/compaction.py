"""Measures the latency of produce and fetch while a broker compacts and loads a large `__consumer_offsets`.

Workers do both in processes of their own, so that the latency stays close to that of an idle broker, with and without
numba.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from rich.table import Table

from bench.loads import create_topic
from bench.products import ODRADEK, data_directory, wide_console
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


class Latency(NamedTuple):
    """In milliseconds."""

    produce_p50: float
    produce_p99: float
    fetch_p50: float
    fetch_p99: float
    max: float


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


def run(kind: type[OdradekProcess], size_bytes: int) -> dict[str, Latency]:
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


def _run_phases(node: OdradekProcess) -> dict[str, Latency]:
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
    megabytes = parser.parse_args().megabytes
    console = wide_console()
    table = Table("", *(name.replace("_", " ") + " ms" for name in Latency._fields))
    worst = 0.0
    for title, kind in (("with numba", OdradekProcess), ("without numba", offsets_log.WithoutNumba)):
        phases = run(kind, megabytes * 1_000_000)
        for phase, latency in phases.items():
            table.add_row(f"{title}, {phase}", *(f"{value:.2f}" for value in latency))
        idle, busy = phases["idle"], phases["compaction"]
        worst = max(worst, busy.produce_p99 / idle.produce_p99, busy.fetch_p99 / idle.fetch_p99)
    console.print(table)
    console.print(f"p99 during compaction: {worst:.2f} × that of an idle broker; target ≤ {TIMES_MAX:g} ×")
    return 0 if worst <= TIMES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
