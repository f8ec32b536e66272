"""`python -m bench.counting`: what counting costs a broker that is written to, and what hot keys cost it.

A broker takes its counting out of its code and puts it back, over and over, and is given a short load each time
(`counted_broker`). There are several brokers, one after the other: a few per cent depend on where things lie in one's
memory.
"""

import argparse
import json
import os
import random
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.table import Table

from bench import loads
from bench.counted_broker import HOT_KEYS_COST, WITH, WITHOUT
from bench.page import COUNTING_SECTION, PAGE, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import RESULTS, describe_machine
from tests.odradek_process import OdradekProcess
from tests.record_batches import TestRecord, batch

ROUNDS: Final = 4
"""Each with a new broker."""
PAIRS: Final = 120
"""Of turns with and without counting in a round."""
HOT_KEYS_SECONDS: Final = 21.0
"""Several of the intervals in which they are looked at."""
COUNTING_MAX, HOT_KEYS_MAX = 0.02, 0.03
TOPIC: Final = "counted"
KEYS: Final = 1000


@dataclass(frozen=True)
class Load:
    name: str
    records_per_request: int
    requests: int
    """In one turn."""

    def frames(self) -> list[bytes]:
        """So many that every key comes."""
        timestamp = int(time.time() * 1000)
        some = max(KEYS, self.records_per_request)
        records = [TestRecord(bytes(100), b"%d" % (number % KEYS)) for number in range(some)]
        return [
            loads.produce_request(TOPIC, batch(*records[first : first + self.records_per_request], timestamp=timestamp))
            for first in range(0, some, self.records_per_request)
        ]


LOADS: Final = (Load("batches of 8,000 records", 8000, 40), Load("one record a request", 1, 2500))


class _Broker(OdradekProcess):
    @property
    def _switch(self) -> Path:
        return self.directory / "switch"

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.counted_broker", str(self._switch), "start", str(self.config_file)]

    def server_properties(self) -> dict[str, str]:
        return super().server_properties() | {
            # Who serves no metrics looks at no keys.
            "http.address": "127.0.0.1:0",
            # What was written is not needed any more: a disk that fills its cache would disturb.
            "log.retention.bytes": "1",
            "log.retention.check.interval.ms": "1000",
            "log.segment.bytes": str(64 << 20),
        }

    def connect(self) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(self._switch))

    def take(self, form: bytes) -> None:
        assert self._ask(form) == form

    @property
    def hot_keys_nanoseconds(self) -> int:
        return int(self._ask(HOT_KEYS_COST))

    @property
    def run_nanoseconds(self) -> int:
        """What the scheduler has counted for its threads: a tick of the clock is too much of one turn."""
        return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{self.pid}/task").glob("*/schedstat"))

    def _ask(self, word: bytes) -> bytes:
        self._connection.sendall(word)
        return self._connection.recv(64)


def main() -> int:
    options = _parse()
    console = wide_console()
    rounds, pairs, seconds = (2, 3, 6.0) if options.quick else (options.rounds, PAIRS, HOT_KEYS_SECONDS)
    found: dict[str, list[_Round]] = {load.name: [] for load in LOADS}
    for number in range(rounds):
        for load in LOADS:
            one = _measure(load, pairs, seconds)
            found[load.name].append(one)
            console.print(
                f"round {number + 1} of {rounds}, {load.name}: {one.microseconds:.2f} µs, "
                f"counting {one.counting:+.2%}, hot keys {one.hot_keys:.2%}"
            )
    rows = [_Row(load, some) for load, some in found.items()]
    RESULTS.mkdir(exist_ok=True)
    told = [{"load": row.load, "rounds": [vars(one) for one in row.rounds]} for row in rows]
    (RESULTS / "counting.json").write_text(json.dumps(told, indent=2) + "\n")
    console.print(_table(rows))
    if options.docs:
        replace_section(PAGE, COUNTING_SECTION, _section(rows, rounds, pairs))
    return 0 if all(row.is_met for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.counting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} unless said")
    parser.add_argument("--quick", action="store_true", help="few turns, whose numbers mean little")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


@dataclass(frozen=True)
class _Round:
    """Of one broker."""

    microseconds: float
    """Of processor time for a record, by the broker as it is."""
    counting: float
    """By how much that is more than without counting."""
    hot_keys: float
    """What looking at keys took of the broker's processor time."""


def _measure(load: Load, pairs: int, seconds: float) -> _Round:
    with data_directory(ODRADEK) as directory:
        broker = _Broker(directory)
        try:
            broker.start()
            broker.connect()
            loads.create_topic(broker.bootstrap, TOPIC)
            frames = load.frames()
            for form in (WITH, WITHOUT) * 3:
                # What is done once, and what the interpreter learns of both.
                _turn(broker, form, load, frames)
            spent: dict[bytes, list[float]] = {WITH: [], WITHOUT: []}
            for _ in range(pairs):
                # By chance: what else a broker does now and then, as a new segment, falls on both alike.
                for form in random.sample((WITH, WITHOUT), 2):
                    spent[form].append(_turn(broker, form, load, frames))
            more = statistics.median(one / other - 1 for one, other in zip(spent[WITH], spent[WITHOUT], strict=True))
            return _Round(statistics.median(spent[WITH]), more, _hot_keys_share(broker, load, frames, seconds))
        finally:
            broker.kill()


def _turn(broker: _Broker, form: bytes, load: Load, frames: Sequence[bytes]) -> float:
    """Microseconds of processor time for a record."""
    broker.take(form)
    before = broker.run_nanoseconds
    loads.pipelined(broker.bootstrap, frames, load.requests)
    return (broker.run_nanoseconds - before) / 1000 / (load.requests * load.records_per_request)


def _hot_keys_share(broker: _Broker, load: Load, frames: Sequence[bytes], seconds: float) -> float:
    broker.take(WITH)
    looked, ran = broker.hot_keys_nanoseconds, broker.run_nanoseconds
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        loads.pipelined(broker.bootstrap, frames, load.requests)
    looked = broker.hot_keys_nanoseconds - looked
    assert looked > 0, "nobody looked at keys"
    return looked / (broker.run_nanoseconds - ran)


@dataclass(frozen=True)
class _Row:
    load: str
    rounds: Sequence[_Round]

    @property
    def is_met(self) -> bool:
        counting, hot_keys = self._counting, self._hot_keys
        return statistics.median(counting) <= COUNTING_MAX and statistics.median(hot_keys) <= HOT_KEYS_MAX

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.load,
            f"{statistics.median(one.microseconds for one in self.rounds):.3g} µs",
            f"{_told(self._counting)}; {COUNTING_MAX:.0%} allowed",
            f"{_told(self._hot_keys)}; {HOT_KEYS_MAX:.0%} allowed",
            "met" if self.is_met else "**missed**",
        )

    @property
    def _counting(self) -> list[float]:
        return [one.counting for one in self.rounds]

    @property
    def _hot_keys(self) -> list[float]:
        return [one.hot_keys for one in self.rounds]


def _told(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1%} ({min(values):.1%} to {max(values):.1%})"


TITLES: Final = ("records of 100 B in", "processor time of a record", "counting", "hot keys", "")


def _table(rows: list[_Row]) -> Table:
    table = Table(title="What counting costs")
    for title in TITLES:
        table.add_column(title)
    for row in rows:
        table.add_row(*row.cells)
    return table


def _section(rows: list[_Row], rounds: int, pairs: int) -> str:
    lines = [TITLES, ("---",) * len(TITLES), *(row.cells for row in rows)]
    return _SECTION.format(
        rounds=rounds,
        pairs=pairs,
        rows="\n".join(f"| {' | '.join(line)} |" for line in lines),
        **describe_machine(),
    )


_SECTION = """
A broker that is written to over one connection, five requests at a time, acks=all, a thousand keys; {cores} cores,
{memory}, Python {python}. Commit {commit}. This section is written by `make bench-counting ARGS=--docs`.

{rows}

- Measured is the broker's processor time for each record, since its one core is what bounds its throughput. The median
  of {rounds} brokers, with the least and the most.
- Counting: two brokers of the same code differ by more than is asked for here, by where things lie in their memory. So
  one broker takes out of its code what counts on the way of a Produce request, puts it back, and is written to each
  time, {pairs} times; a broker's figure is the median of what a turn with it took beyond the one without next to it.
- Hot keys: what looking at keys took, on the loop and in its thread, of all that the broker took.
- Where every record comes in a request of its own, counting weighs most: that is the worst there is.
"""


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
