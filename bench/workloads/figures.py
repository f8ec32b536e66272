"""The samples of all rounds, and what they say: medians, ratios of neighbouring rounds, and whether targets are met."""

import statistics
from dataclasses import dataclass, field

from bench.products import KAFKA
from bench.workloads.rows import MEMORY_MB_MAX, Row, Target


@dataclass(frozen=True)
class Sample:
    """One measured round of one side."""

    rate: float
    cpu_us: float
    """Per unit."""
    peak_mb: float
    resident_mb: float


@dataclass
class Figures:
    """Row -> side -> one sample per measured round."""

    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)

    def add(self, row: str, side: str, sample: Sample) -> None:
        self.samples.setdefault(row, {}).setdefault(side, []).append(sample)

    def rate(self, row: str, side: str) -> float:
        return statistics.median(one.rate for one in self.samples[row][side])

    def cpu_us(self, row: str, side: str) -> float:
        return statistics.median(one.cpu_us for one in self.samples[row][side])

    def peak_mb(self, row: str, side: str) -> float:
        return max(one.peak_mb for one in self.samples[row][side])

    def resident_mb(self, row: str, side: str) -> float:
        return statistics.median(one.resident_mb for one in self.samples[row][side])

    def rate_ratio(self, row: str, side: str) -> float:
        """The median of the rounds' ratios to Kafka, because neighbouring rounds share the computer's state."""
        return statistics.median(one.rate / kafka.rate for one, kafka in self._pairs(row, side))

    def cpu_ratio(self, row: str, side: str) -> float:
        return statistics.median(one.cpu_us / kafka.cpu_us for one, kafka in self._pairs(row, side))

    def _pairs(self, row: str, side: str) -> list[tuple[Sample, Sample]]:
        found = self.samples[row]
        return list(zip(found[side], found[KAFKA], strict=True))


def missed_targets(figures: Figures, row: Row, side: str) -> list[str]:
    """Which of the row's targets this side misses: rate, CPU or memory."""
    target = row.targets.get(side, Target())
    missed = []
    if target.rate_min is not None and figures.rate_ratio(row.key, side) < target.rate_min:
        missed.append("rate")
    if target.cpu_max is not None and figures.cpu_ratio(row.key, side) > target.cpu_max:
        missed.append("CPU")
    if figures.peak_mb(row.key, side) >= MEMORY_MB_MAX:
        missed.append("memory")
    return missed


def cpu_seconds_per_gb(cpu_us: float, value_bytes: int) -> float:
    """From µs per record to seconds per 10⁹ bytes of values."""
    return cpu_us / 1e6 * (1e9 / value_bytes)
