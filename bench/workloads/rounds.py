"""Runs rows in rounds: in each round every side runs the same load, one after the other."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.loads import WARM_UP_ROUNDS, Progress
from bench.workloads import first_byte, idle_connections, limits
from bench.workloads.figures import Figures, Sample
from bench.workloads.first_byte import Arrival
from bench.workloads.idle_connections import IdleCost, possible_connections
from bench.workloads.loads import KIB, topic_of
from bench.workloads.rows import CONSUME_1024, ROWS, Cluster, Row
from bench.workloads.sides import ONE_BROKER_SIDES, THREE_BROKER_SIDES, Meter, Side, one_broker, three_brokers

LIMITS, FIRST_BYTE, IDLE_CONNECTIONS = "limits", "first_byte", "idle_connections"
EXTRAS: Final = (LIMITS, FIRST_BYTE, IDLE_CONNECTIONS)
NAMES: Final = (*(row.key for row in ROWS), *EXTRAS)


@dataclass(frozen=True)
class Size:
    quick: bool
    rounds: int
    """Measured rounds."""
    round_s: float
    """A slow computer does less work per round."""
    fetches: int
    idle_s: float
    limit_bytes: int


FULL: Final = Size(False, 3, 3.5, 20, 10.0, 1 << 30)
QUICK: Final = Size(True, 1, 1.5, 5, 3.0, 1 << 29)


@dataclass
class Measured:
    """What one run has measured; without what `--only` left out."""

    figures: Figures = field(default_factory=Figures)
    limits: list[dict[str, float]] = field(default_factory=list)
    """One mapping per round."""
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    idle: dict[str, IdleCost] = field(default_factory=dict)


def run(names: Sequence[str], libs: Path, size: Size, measured: Measured, progress: Progress, done: Progress) -> None:
    """Adds each row when all its rounds are over, and reports it as done."""
    one = [row for row in ROWS if row.key in names and row.cluster is Cluster.ONE_BROKER]
    three = [row for row in ROWS if row.key in names and row.cluster is Cluster.THREE_BROKERS]
    if LIMITS in names:
        for number in range(size.rounds):
            progress(f"limits, round {number + 1} of {size.rounds}")
            measured.limits.append(limits.measure(size.limit_bytes))
    if one or FIRST_BYTE in names or IDLE_CONNECTIONS in names:
        with ExitStack() as running:
            progress("start of one broker of each side")
            sides = {key: running.enter_context(one_broker(key, libs)) for key in ONE_BROKER_SIDES}
            _run_rows(one, sides, size, measured.figures, progress, done)
            _run_extras(names, sides, size, measured, progress)
    if three:
        with ExitStack() as running:
            progress("start of three brokers of each side")
            sides = {key: running.enter_context(three_brokers(key, libs)) for key in THREE_BROKER_SIDES}
            _run_rows(three, sides, size, measured.figures, progress, done)


def _run_rows(
    rows: Sequence[Row], sides: dict[str, Side], size: Size, figures: Figures, progress: Progress, done: Progress
) -> None:
    for row in rows:
        samples: list[dict[str, Sample]] = []
        for number in range(WARM_UP_ROUNDS + size.rounds):
            amount = amount_of_round(row, size, [one.rate for one in samples[-1].values()] if samples else [])
            samples.append({})
            for key in order_of_round(row.sides, number):
                progress(f"{row.title}, {key}, round {number + 1} of {WARM_UP_ROUNDS + size.rounds}")
                samples[-1][key] = _sample(row, sides[key], amount, size)
        for found in samples[WARM_UP_ROUNDS:]:
            for key, sample in found.items():
                figures.add(row.key, key, sample)
        done(f"{row.title}: done")


def amount_of_round(row: Row, size: Size, rates: Sequence[float]) -> int:
    """The same for all sides: what the slowest did in the given time, according to the round before, within bounds.

    Smaller rounds would neither warm up Kafka nor take measurable CPU time, however slow the computer is.
    """
    amount = row.amount(quick=size.quick)
    if row.load.is_timed:
        return amount
    return min(amount, max(row.quick, int(min(rates, default=0) * size.round_s)))


def order_of_round(sides: Sequence[str], number: int) -> Sequence[str]:
    """Every second round is reversed, so that a drift of the computer's speed affects all sides equally."""
    return sides if number % 2 == 0 else tuple(reversed(sides))


def _sample(row: Row, side: Side, amount: int, size: Size) -> Sample:
    row.load.prepare(side, row.amount(quick=size.quick))
    meter = Meter(side)
    work = row.load.run(side, amount)
    usage = meter.read()
    row.load.clean(side)
    return Sample(work.rate, 1e6 * usage.cpu_s / work.units, usage.peak_mb, usage.resident_mb)


def _run_extras(
    names: Sequence[str], sides: dict[str, Side], size: Size, measured: Measured, progress: Progress
) -> None:
    single = [side for side in sides.values() if len(side.nodes) == 1]
    if FIRST_BYTE in names:
        row = next(row for row in ROWS if row.key == CONSUME_1024)
        for _ in range(WARM_UP_ROUNDS + 1):
            for side in single:
                progress(f"large fetches, {side.key}")
                row.load.prepare(side, row.amount(quick=size.quick))
                measured.arrivals[side.key] = first_byte.measure(side, topic_of(KIB), size.fetches)
    if IDLE_CONNECTIONS in names:
        for side in single:
            progress(f"idle connections, {side.key}")
            measured.idle[side.key] = idle_connections.measure(side, possible_connections(), size.idle_s)
