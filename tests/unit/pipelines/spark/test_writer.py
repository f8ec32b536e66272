"""Rows become records: text and bytes, nulls, headers, and the time at which they are written."""

import time
from typing import Any, cast

import pyarrow as pa
import pytest

from odradek.base.ids import TopicPartition
from odradek.client.errors import UnknownPartition
from odradek.client.produce import Producer
from odradek.pipelines.spark.columns import merge_batches, send_columns
from odradek.pipelines.spark.options import ClientOptions
from odradek.pipelines.spark.writer import TopicRows

pytestmark = pytest.mark.needs("pyarrow")


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


def test_rows_may_have_timestamps() -> None:
    times = pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC"))
    columns = {"value": pa.array(["a", "b"]), "timestamp": times, "partition": pa.array([1, 0], pa.int32())}
    before_ms = int(time.time() * 1000)
    first, second = (record.timestamp for _, _, record in records(columns, "fixed"))
    assert first == 1_700_000_000_123 and second >= before_ms

    sent = Sent()
    send_columns(cast(Producer, sent), pa.record_batch(columns), "fixed")
    (later, _), (given, given_max) = sent.times
    assert given == given_max == 1_700_000_000_123 and later >= before_ms


def test_the_option_goes_before_the_column_and_one_is_needed() -> None:
    columns = {"value": pa.array(["v"]), "topic": pa.array([None], pa.string())}

    assert records(columns, "fixed")[0][0] == "fixed"
    with pytest.raises(ValueError, match="null topic"):
        records(columns)


class Sent:
    """A producer that remembers."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int, int]] = []
        self.times: list[tuple[int, int]] = []

    def partition_count(self, topic: str) -> int:
        return 2

    def add_encoded(
        self, target: TopicPartition, payload: Any, record_count: int, base_timestamp: int, max_timestamp: int
    ) -> None:
        self.batches.append((target.topic, target.partition, record_count))
        self.times.append((base_timestamp, max_timestamp))


def test_columns_are_sent_by_topic_and_partition() -> None:
    columns = {
        "value": pa.array(["a", "b", None, "d"]),
        "topic": pa.array(["one", "two", "one", "two"]),
        "partition": pa.array([1, 0, 1, 1], pa.int32()),
    }
    sent = Sent()
    send_columns(cast(Producer, sent), pa.record_batch(columns), None)
    assert sorted(sent.batches) == [("one", 1, 2), ("two", 0, 1), ("two", 1, 1)]

    send_columns(cast(Producer, sent), pa.record_batch(columns), "fixed")
    assert sorted(sent.batches[-2:]) == [("fixed", 0, 1), ("fixed", 1, 3)]

    for wrong in (2, -1):
        columns["partition"] = pa.array([0, 0, None, wrong], pa.int32())
        with pytest.raises(UnknownPartition, match=f"no partition {wrong}"):
            send_columns(cast(Producer, sent), pa.record_batch(columns), "fixed")
    columns["topic"] = pa.array(["one", None, "one", "two"])
    with pytest.raises(ValueError, match="null topic"):
        send_columns(cast(Producer, sent), pa.record_batch(columns), None)


def test_small_batches_are_merged() -> None:
    small = pa.record_batch({"value": pa.array(["x" * 100] * 1000)})
    gathered = list(merge_batches([small, small.slice(0, 0), *[small] * 100]))
    assert [one.num_rows for one in gathered] == [81_000, 20_000]
