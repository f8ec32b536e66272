"""Measures what counting and hot keys cost a broker under a produce load.

One broker repeatedly removes its counting code and restores it, with a short load each time (`counted_broker`). Several
brokers run in sequence, because a few per cent depend on a process's memory layout.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from bench import loads
from bench.counted_broker import HOT_KEYS_COST
from bench.exchanged_code import WITH, ExchangingBroker, measure_pairs, relative_cost
from bench.page import COUNTING_SECTION, PAGE, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import RESULTS, describe_machine
from tests.record_batches import TestRecord, batch

ROUNDS: Final = 4
"""Each round starts a new broker."""
PAIRS: Final = 120
"""Pairs of turns with and without counting in a round."""
HOT_KEYS_SECONDS: Final = 21.0
"""Several sampling intervals of the hot keys."""
COUNTING_MAX, HOT_KEYS_MAX = 0.02, 0.03
TOPIC: Final = "counted"
KEYS: Final = 1000


@dataclass(frozen=True)
class Load:
    name: str
    records_per_request: int
    requests: int
    """Requests in one turn."""

    def frames(self) -> list[bytes]:
        """Enough requests to contain every key."""
        timestamp = int(time.time() * 1000)
        some = max(KEYS, self.records_per_request)
        records = [TestRecord(bytes(100), b"%d" % (number % KEYS)) for number in range(some)]
        return [
            loads.produce_request(TOPIC, batch(*records[first : first + self.records_per_request], timestamp=timestamp))
            for first in range(0, some, self.records_per_request)
        ]


LOADS: Final = (Load("batches of 8,000 records", 8000, 40), Load("one record per request", 1, 2500))


class _Broker(ExchangingBroker):
    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.counted_broker", str(self.command_socket), "start", str(self.config_file)]

    def server_properties(self) -> dict[str, str]:
        # Without an HTTP address, a node samples no hot keys.
        return super().server_properties() | {"http.address": "127.0.0.1:0"}

    @property
    def hot_keys_nanoseconds(self) -> int:
        return int(self.command(HOT_KEYS_COST))


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
    results = [{"load": row.load, "rounds": [vars(one) for one in row.rounds]} for row in rows]
    (RESULTS / "counting.json").write_text(json.dumps(results, indent=2) + "\n")
    console.print(_table(rows))
    if options.docs:
        replace_section(PAGE, COUNTING_SECTION, _section(rows, rounds, pairs))
    return 0 if all(row.is_met for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.counting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of rounds (default: {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="few turns, only to check that the benchmark works")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


@dataclass(frozen=True)
class _Round:
    """The figures of one broker."""

    microseconds: float
    """CPU time per record, with counting."""
    counting: float
    """Relative additional CPU time of counting."""
    hot_keys: float
    """Share of the broker's CPU time used for hot keys."""


def _measure(load: Load, pairs: int, seconds: float) -> _Round:
    with data_directory(ODRADEK) as directory:
        broker = _Broker(directory)
        try:
            broker.start()
            broker.connect()
            loads.create_topic(broker.bootstrap, TOPIC)
            frames = load.frames()
            spent = measure_pairs(lambda variant: run_turn(broker, variant, load, frames), pairs)
            more = relative_cost(spent)
            return _Round(statistics.median(spent[WITH]), more, _hot_keys_share(broker, load, frames, seconds))
        finally:
            broker.kill()


def run_turn(broker: ExchangingBroker, variant: bytes, load: Load, frames: Sequence[bytes]) -> float:
    """Returns the CPU time per record in microseconds."""
    broker.switch_to(variant)
    before = broker.run_nanoseconds
    loads.send_pipelined(broker.bootstrap, frames, load.requests)
    return (broker.run_nanoseconds - before) / 1000 / (load.requests * load.records_per_request)


def _hot_keys_share(broker: _Broker, load: Load, frames: Sequence[bytes], seconds: float) -> float:
    broker.switch_to(WITH)
    looked, ran = broker.hot_keys_nanoseconds, broker.run_nanoseconds
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        loads.send_pipelined(broker.bootstrap, frames, load.requests)
    looked = broker.hot_keys_nanoseconds - looked
    assert looked > 0, "no hot keys were sampled"
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
            f"{_summary(self._counting)}; target ≤ {COUNTING_MAX:.0%}",
            f"{_summary(self._hot_keys)}; target ≤ {HOT_KEYS_MAX:.0%}",
            "met" if self.is_met else "**missed**",
        )

    @property
    def _counting(self) -> list[float]:
        return [one.counting for one in self.rounds]

    @property
    def _hot_keys(self) -> list[float]:
        return [one.hot_keys for one in self.rounds]


def _summary(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1%} ({min(values):.1%} to {max(values):.1%})"


TITLES: Final = ("records of 100 B in", "CPU time per record", "counting", "hot keys", "")


def _table(rows: list[_Row]) -> Table:
    table = Table(title="Cost of metrics")
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
        rows="\n".join(f"| {' | '.join(connection)} |" for connection in lines),
        **describe_machine(),
    )


_SECTION = """
A broker under a produce load on one connection, five requests in flight, acks=all, a thousand keys; {cores} cores,
{memory}, Python {python}. Commit {commit}. `make bench-counting ARGS=--docs` writes this section.

{rows}

- The measure is the broker's CPU time per record, because its one core limits its throughput. Medians of {rounds}
  brokers, with lowest and highest values.
- Counting: two brokers with the same code differ by more than this target, because of their memory layout. So one
  broker removes the counting code from its Produce path and restores it, {pairs} times, with a load each time. A
  broker's value is the median additional time of a turn with counting over the adjacent turn without.
- Hot keys: the share of the broker's CPU time used to sample keys, on the event loop and in the thread.
- One record per request is the worst case for counting.
"""


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
