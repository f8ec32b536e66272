"""Consume-transform-produce with Apache Kafka's own copier while brokers or copiers are killed: output equals input.

Runs two combinations of Kafka's system tests with few records; `make exactly-once` runs all of them with many.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exactly_once.combinations import ASSIGNED, BY_NAME, GROUPED
from tests.exactly_once.reading import differences
from tests.exactly_once.run import TRANSACTION_TIMEOUT_MS, run

RECORDS = 10_000
IN_EVERY_RUN = {"hard-brokers-two-metadata": TRANSACTION_TIMEOUT_MS, "hard-clients-one-name": 10_000}
"""Transaction timeouts: short where only clients are restarted, because a restarted client waits for the timeout."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", IN_EVERY_RUN)
@pytest.mark.tier("proof")
def test_transactional_copy_output_equals_input(
    name: str, apache_kafka_libs: Path, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    outcome = run(BY_NAME[name], RECORDS, apache_kafka_libs, tmp_path, transaction_timeout_ms=IN_EVERY_RUN[name])
    measured(f"exactly once, {name}: {outcome.records:,} records, {outcome.bounces} bounces, {outcome.seconds:.0f} s")
    assert outcome.differences == []


def test_number_of_combinations_equals_kafkas() -> None:
    assert (len(ASSIGNED), len(GROUPED), len(BY_NAME)) == (16, 4, 20)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([[b"0", b"2", b"4"], [b"1", b"3"], []], []),
        ([[b"0", b"4"], [b"1", b"3"], []], ["reader, partition 0: 1 missing: 2"]),
        ([[b"0", b"2", b"2", b"4"], [b"1", b"3"], []], ["reader, partition 0: 1 too many: 2"]),
        ([[b"0", b"2", b"4"], [b"3", b"1"], []], ["reader, partition 1: out of order from record 0: 3, 1"]),
        ([[b"0", b"2", b"4"], [b"1", b"3"], [b"5"]], ["reader, partition 2: 1 too many: 5"]),
    ],
)
def test_differences_are_described(found: list[list[bytes]], expected: list[str]) -> None:
    assert differences("reader", [[b"0", b"2", b"4"], [b"1", b"3"]], found) == expected
