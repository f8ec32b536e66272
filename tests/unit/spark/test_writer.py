"""Rows become records: text and bytes, nulls, headers, and the time at which they are written."""

import time
from typing import Any

import pyarrow as pa
import pytest

from odradek.spark.options import ClientOptions
from odradek.spark.writer import TopicRows


def records(columns: dict[str, Any], topic: str | None = None) -> list[Any]:
    rows = TopicRows(ClientOptions(bootstrap_servers="localhost:1"), topic, "none")
    return list(rows._records(pa.record_batch(columns)))


def test_rows_become_records() -> None:
    before_ms = int(time.time() * 1000)
    headers = pa.array(
        [[{"key": "a", "value": b"1"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    found = records(
        {
            "value": pa.array(["text", None]),
            "key": pa.array([b"\xff", None]),
            "topic": pa.array(["one", "two"]),
            "partition": pa.array([3, None], pa.int32()),
            "headers": headers,
        }
    )

    (first_topic, first_partition, first), (second_topic, second_partition, second) = found
    assert (first_topic, first_partition, second_topic, second_partition) == ("one", 3, "two", None)
    assert (first.key, first.value, first.headers) == (b"\xff", b"text", (("a", b"1"),))
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert first.timestamp >= before_ms


def test_the_option_goes_before_the_column_and_one_is_needed() -> None:
    columns = {"value": pa.array(["v"]), "topic": pa.array([None], pa.string())}

    assert records(columns, "fixed")[0][0] == "fixed"
    with pytest.raises(ValueError, match="null for its topic"):
        records(columns)
