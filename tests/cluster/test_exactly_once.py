"""Consume, transform, produce by Apache Kafka's own copier while brokers or copiers are killed: output equals input.

Two of the combinations of Kafka's system tests, with few records; `make exactly-once` does all of them with many.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exactly_once.combinations import ASSIGNED, BY_NAME, IN_A_GROUP
from tests.exactly_once.reading import differences
from tests.exactly_once.run import TRANSACTION_TIMEOUT_MS, run

RECORDS = 10_000
IN_EVERY_RUN = {"hard-brokers-two-metadata": TRANSACTION_TIMEOUT_MS, "hard-clients-one-name": 10_000}
"""With the transactions' timeout: no broker is away for long where clients are bounced, and they wait for it."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", IN_EVERY_RUN)
def test_output_equals_input(
    name: str, apache_kafka_libs: Path, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    outcome = run(BY_NAME[name], RECORDS, apache_kafka_libs, tmp_path, transaction_timeout_ms=IN_EVERY_RUN[name])
    measured(f"exactly once, {name}: {outcome.records:,} records, {outcome.bounces} bounces, {outcome.seconds:.0f} s")
    assert outcome.differences == []


def test_there_are_as_many_combinations_as_kafka_has() -> None:
    assert (len(ASSIGNED), len(IN_A_GROUP), len(BY_NAME)) == (16, 4, 20)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([[b"0", b"2", b"4"], [b"1", b"3"], []], []),
        ([[b"0", b"4"], [b"1", b"3"], []], ["reader, partition 0: 1 lost: 2"]),
        ([[b"0", b"2", b"2", b"4"], [b"1", b"3"], []], ["reader, partition 0: 1 too many: 2"]),
        ([[b"0", b"2", b"4"], [b"3", b"1"], []], ["reader, partition 1: out of order from record 0 on: 3, 1"]),
        ([[b"0", b"2", b"4"], [b"1", b"3"], [b"5"]], ["reader, partition 2: 1 too many: 5"]),
    ],
)
def test_differences_are_told(found: list[list[bytes]], said: list[str]) -> None:
    assert differences("reader", [[b"0", b"2", b"4"], [b"1", b"3"]], found) == said
