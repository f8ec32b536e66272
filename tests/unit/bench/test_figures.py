"""What the rounds of a workload say: medians, ratios and missed targets."""

import pytest

from bench.products import KAFKA, ODRADEK
from bench.workloads.figures import Figures, Sample, cpu_seconds_per_gb, missed_targets
from bench.workloads.loads import Commits
from bench.workloads.rows import MEMORY_MB_MAX, Cluster, Row, Target
from bench.workloads.sides import TWO_ODRADEK


def row(target: Target) -> Row:
    return Row("some", "some load", "records", Cluster.ONE_BROKER, Commits(), 1, 1, {ODRADEK: target})


def figures(kafka: list[Sample], odradek: list[Sample], two: list[Sample] | None = None) -> Figures:
    found = Figures()
    for side, samples in ((KAFKA, kafka), (ODRADEK, odradek), (TWO_ODRADEK, two or [])):
        for sample in samples:
            found.add("some", side, sample)
    return found


def test_ratio_compares_samples_of_the_same_round() -> None:
    slow, fast = Sample(100, 1.0, 0, 0), Sample(400, 1.0, 0, 0)
    # The computer was four times as fast in the last rounds: ratios of medians would say 0.5.
    found = figures([slow, fast, fast], [Sample(200, 1.0, 0, 0), Sample(200, 1.0, 0, 0), Sample(800, 1.0, 0, 0)])
    assert found.rate_ratio("some", ODRADEK) == 2.0
    assert found.rate("some", ODRADEK) / found.rate("some", KAFKA) == 0.5


def test_ratio_of_unequal_numbers_of_rounds_is_an_error() -> None:
    found = figures([Sample(1, 1, 1, 1)] * 2, [Sample(1, 1, 1, 1)])
    with pytest.raises(ValueError, match="zip"):
        found.rate_ratio("some", ODRADEK)


def test_memory_is_the_highest_peak_and_the_median_after_the_rounds() -> None:
    samples = [Sample(1, 1, 50, 40), Sample(1, 1, 79, 60), Sample(1, 1, 51, 41)]
    found = figures(samples, samples)
    assert (found.peak_mb("some", ODRADEK), found.resident_mb("some", ODRADEK)) == (79, 41)


@pytest.mark.parametrize(
    ("odradek", "missed"),
    [
        (Sample(110, 0.7, 79.0, 50), []),
        (Sample(109, 0.7, 79.0, 50), ["rate"]),
        (Sample(110, 0.71, 79.0, 50), ["CPU"]),
        (Sample(110, 0.7, MEMORY_MB_MAX, 50), ["memory"]),
        (Sample(10, 7, 800, 50), ["rate", "CPU", "memory"]),
    ],
)
def test_missed_targets_are_named(odradek: Sample, missed: list[str]) -> None:
    found = figures([Sample(100, 1.0, 1000, 900)], [odradek])
    assert missed_targets(found, row(Target(1.1, 0.7)), ODRADEK) == missed


def test_side_without_targets_of_its_own_must_only_stay_below_the_memory_limit() -> None:
    found = figures([Sample(100, 1.0, 1000, 900)], [], [Sample(1, 100, 79, 50)])
    assert missed_targets(found, row(Target(1.1, 0.7)), TWO_ODRADEK) == []


def test_cpu_per_gb_counts_bytes_of_values() -> None:
    assert cpu_seconds_per_gb(2.0, 1000) == 2.0
    assert cpu_seconds_per_gb(1.024, 1024) == pytest.approx(1.0)
