from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from odradek.pipelines.spark.pushdown import EVERYTHING, Wanted, parse_filters

pytestmark = pytest.mark.needs("pyspark")


def test_filters_restrict_the_range() -> None:
    assert (
        parse_filters([IsNotNull(("value",)), Not(EqualTo(("partition",), 1)), EqualTo(("topic",), "t")]) == EVERYTHING
    )
    assert parse_filters([In(("partition",), (1, 2)), EqualTo(("partition",), 2)]).partitions == {2}
    assert parse_filters([EqualTo(("partition",), 1), EqualTo(("partition",), 2)]).partitions == frozenset()
    assert parse_filters([GreaterThan(("offset",), 4), LessThan(("offset",), 9)]) == Wanted(
        first_offset=5, last_offset=8
    )
    assert parse_filters(
        [GreaterThanOrEqual(("offset",), 4), LessThanOrEqual(("offset",), 9), EqualTo(("offset",), 6)]
    ) == (Wanted(first_offset=6, last_offset=6))
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    wanted = parse_filters(
        [GreaterThan(("timestamp",), moment + timedelta(microseconds=1500)), LessThan(("offset",), 0)]
    )
    assert wanted.first_timestamp_ms == round(moment.timestamp() * 1000) + 1
    # A time of no zone says nothing of a moment.
    assert parse_filters([EqualTo(("timestamp",), datetime(2024, 1, 1))]) == EVERYTHING


def test_ranges_get_smaller_and_never_longer() -> None:
    assert EVERYTHING.offsets(3, 9) == (3, 9)
    assert Wanted(first_offset=5, last_offset=7).offsets(3, 9) == (5, 8)
    assert Wanted(first_offset=20).offsets(3, 9) == (9, 9)
    assert Wanted(last_offset=1).offsets(3, 9) == (2, 2)
    assert Wanted(partitions=frozenset({1})).includes(1) and not Wanted(partitions=frozenset()).includes(1)
