"""Measures what the assertions of invariants cost a broker under a produce load.

One broker repeatedly removes its assertions and restores them, with a short load each time (`asserting_broker`). Only
Odradek's own assertions: `python -O` would remove those of its libraries too. Several brokers run in sequence.
"""

import argparse
import statistics
import sys
from typing import Final

from bench import loads
from bench.counting import LOADS, TOPIC, Load, run_turn
from bench.exchanged_code import ExchangingBroker, measure_pairs, relative_cost
from bench.products import ODRADEK, data_directory, wide_console

ROUNDS: Final = 4
"""Each round starts a new broker."""
PAIRS: Final = 120
"""Pairs of turns with and without assertions in a round."""
COST_MAX: Final = 0.01


class _Broker(ExchangingBroker):
    def start_command(self) -> list[str]:
        broker = "bench.asserting_broker"
        return [sys.executable, "-m", broker, str(self.command_socket), "start", str(self.config_file)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.assertions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of rounds (default: {ROUNDS})")
    rounds = parser.parse_args().rounds
    console = wide_console()
    costs: dict[str, list[float]] = {load.name: [] for load in LOADS}
    for number in range(rounds):
        for load in LOADS:
            costs[load.name].append(cost := _measure(load))
            console.print(f"round {number + 1} of {rounds}, {load.name}: assertions {cost:+.2%}")
    medians = {name: statistics.median(some) for name, some in costs.items()}
    for name, some in costs.items():
        console.print(f"{name}: {medians[name]:+.2%} ({min(some):+.2%} to {max(some):+.2%}); target ≤ {COST_MAX:.0%}")
    return 0 if max(medians.values()) <= COST_MAX else 1


def _measure(load: Load) -> float:
    """Relative additional CPU time of a broker with assertions."""
    with data_directory(ODRADEK) as directory:
        broker = _Broker(directory)
        try:
            broker.start()
            broker.connect()
            loads.create_topic(broker.bootstrap, TOPIC)
            frames = load.frames()
            return relative_cost(measure_pairs(lambda variant: run_turn(broker, variant, load, frames), PAIRS))
        finally:
            broker.kill()


if __name__ == "__main__":
    sys.exit(main())
