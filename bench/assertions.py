"""Measures what the assertions of invariants cost a broker under a produce load.

Two brokers run side by side, one of them with `python -O`, which leaves assertions out, and take turns. Several pairs
run in sequence, because a few per cent depend on a process's memory layout.
"""

import argparse
import random
import statistics
import sys
from pathlib import Path
from typing import Final

from bench import loads
from bench.counting import LOADS, TOPIC, Load
from bench.measured_broker import MeasuredBroker
from bench.products import ODRADEK, data_directory, wide_console

PAIRS: Final = 8
"""Pairs of brokers."""
TURNS: Final = 40
"""Turns of each broker of a pair."""
COST_MAX: Final = 0.01


class _Broker(MeasuredBroker):
    def __init__(self, directory: Path, *, with_assertions: bool) -> None:
        super().__init__(directory)
        self._flags = () if with_assertions else ("-O",)

    def start_command(self) -> list[str]:
        return [sys.executable, *self._flags, "-m", "odradek", "start", str(self.config_file)]

    def cpu_of_turn(self, load: Load, frames: list[bytes]) -> float:
        """CPU time in microseconds per record."""
        before = self.run_nanoseconds
        loads.send_pipelined(self.bootstrap, frames, load.requests)
        return (self.run_nanoseconds - before) / 1000 / (load.requests * load.records_per_request)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.assertions", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of brokers (default: {PAIRS})")
    pairs = parser.parse_args().pairs
    console = wide_console()
    costs: dict[str, list[float]] = {load.name: [] for load in LOADS}
    for number in range(pairs):
        for load in LOADS:
            costs[load.name].append(cost := _measure(load))
            console.print(f"pair {number + 1} of {pairs}, {load.name}: assertions {cost:+.2%}")
    medians = {name: statistics.median(some) for name, some in costs.items()}
    for name, some in costs.items():
        console.print(f"{name}: {medians[name]:+.2%} ({min(some):+.2%} to {max(some):+.2%}); target ≤ {COST_MAX:.0%}")
    return 0 if max(medians.values()) <= COST_MAX else 1


def _measure(load: Load) -> float:
    """Relative additional CPU time of a broker with assertions."""
    with data_directory(ODRADEK) as first, data_directory(ODRADEK) as second:
        brokers = [_Broker(first, with_assertions=True), _Broker(second, with_assertions=False)]
        try:
            for broker in random.sample(brokers, 2):
                broker.start()
                loads.create_topic(broker.bootstrap, TOPIC)
            frames = load.frames()
            for broker in brokers * 3:
                broker.cpu_of_turn(load, frames)
            spent: dict[_Broker, list[float]] = {broker: [] for broker in brokers}
            for _ in range(TURNS):
                for broker in random.sample(brokers, 2):
                    spent[broker].append(broker.cpu_of_turn(load, frames))
            with_assertions, without = (statistics.median(spent[broker]) for broker in brokers)
            return with_assertions / without - 1
        finally:
            for broker in brokers:
                broker.kill()


if __name__ == "__main__":
    sys.exit(main())
