"""Records become the columns that they are, whatever they hold and however they were written."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odradek.records.builder import build_batch
from odradek.records.compression import Compression
from odradek.records.record import InvalidRecords, Record
from tests import record_batches
from tests.record_batches import TestRecord

pytestmark = pytest.mark.needs("pyarrow")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW_MS = 1_700_000_000_123

EVERYTHING = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def as_row(record: Record, offset: int) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": 0,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def random_records(random: Random, count: int) -> list[Record]:
    def data(length_max: int) -> bytes | None:
        return None if random.random() < 0.1 else random.randbytes(random.randrange(length_max))

    return [
        Record(
            data(20),
            data(300),
            NOW_MS + random.randrange(-5_000, 5_000),
            tuple((f"näme-{number}", data(9)) for number in range(random.randrange(4))),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_column_of_every_codec(logs: Any, codec: Compression) -> None:
    random = Random(codec)
    records, batches, offset = [], [], 0
    while offset < 3_000:
        some = random_records(random, random.randrange(1, 400))
        batches.append(build_batch(some, base_offset=offset, compression=codec))
        records += some
        offset += len(some)
    logs.segment(batches)

    expected = [as_row(record, offset) for offset, record in enumerate(records)]

    assert logs.rows(columns=EVERYTHING) == expected
    # Batches of any size say the same, also where they end in the middle of one of the log's.
    assert logs.rows(columns=EVERYTHING, batch_rows=7) == expected
    assert logs.rows(columns=EVERYTHING, batch_bytes=1_000) == expected


def test_codecs_mixed_and_partitions_in_their_order(logs: Any) -> None:
    for partition in (2, 0, 11):
        logs.segment(
            [
                build_batch([Record(b"k", b"%d" % offset)], base_offset=offset, compression=offset % 5)
                for offset in range(20)
            ],
            partition=partition,
        )

    rows = logs.rows(columns=["partition", "value"])

    assert [(row["partition"], int(row["value"])) for row in rows] == [(p, o) for p in (0, 2, 11) for o in range(20)]


def test_a_column_alone_and_in_any_order(logs: Any) -> None:
    logs.segment([build_batch([Record(b"k", b"v", NOW_MS)])])

    assert logs.reader(columns=["offset", "key"]).schema.names == ["offset", "key"]
    assert logs.reader(columns=["value"]).read_all().to_pylist() == [{"value": b"v"}]
    assert logs.reader().schema.names == EVERYTHING[:-1]
    with pytest.raises(ValueError, match="Unknown column 'valeu'"):
        logs.reader(columns=["valeu"])


def test_append_time_is_the_batchs(logs: Any) -> None:
    logs.segment([build_batch([Record(b"k", b"v", 5), Record(b"k", b"v", 9)], append_time_ms=NOW_MS)])

    rows = logs.rows(columns=["timestamp", "timestampType"])

    assert rows == [{"timestamp": EPOCH + timedelta(milliseconds=NOW_MS), "timestampType": 1}] * 2


def test_a_header_that_is_not_text_is_replaced_as_java_does(logs: Any) -> None:
    logs.segment([record_batches.batch(TestRecord(headers=[(b"\xff\xfe", b"x"), (b"ok", None)]))])

    assert logs.column("headers") == [[{"key": "��", "value": b"x"}, {"key": "ok", "value": None}]]


def test_arrow_batches_respect_their_maximum_size(logs: Any) -> None:
    logs.segment([build_batch([Record(None, bytes(1_000))] * 1_000, compression=Compression.ZSTD)])

    sizes = [batch.num_rows for batch in logs.reader(batch_rows=300)]
    bytes_of_values = [batch.nbytes for batch in logs.reader(columns=["value"], batch_bytes=50_000)]

    assert sizes == [300, 300, 300, 100]
    assert max(bytes_of_values) < 53_000


def test_returned_batches_are_not_overwritten(logs: Any) -> None:
    logs.segment(
        [
            build_batch([Record(b"%d" % n, b"v%d" % n, n, (("h", b"%d" % n),)) for n in range(50)], base_offset=base)
            for base in range(0, 5_000, 50)
        ]
    )

    kept = list(logs.reader(columns=EVERYTHING, batch_rows=64))

    assert pa.Table.from_batches(kept).to_pylist() == logs.rows(columns=EVERYTHING)


def test_deleted_records_are_skipped_without_fail_on_data_loss(logs: Any) -> None:
    """What compaction leaves: records missing within a batch, whole batches missing, a batch without records."""
    kept = record_batches.encode_record(TestRecord(b"b"), 2) + record_batches.encode_record(TestRecord(b"d"), 5)
    logs.segment(
        [
            record_batches.batch(body=kept, last_offset_delta=9, record_count=2, base_offset=10),
            record_batches.batch(body=b"", last_offset_delta=4, record_count=0, base_offset=40),
            record_batches.batch(TestRecord(b"e"), base_offset=60),
        ]
    )

    assert [(row["offset"], row["value"]) for row in logs.rows()] == [(12, b"b"), (15, b"d"), (60, b"e")]


@pytest.mark.parametrize(
    "batch",
    [
        record_batches.batch(TestRecord(), record_count=2),
        record_batches.batch(TestRecord(), record_count=2**31 - 1),
        record_batches.batch(TestRecord(), record_count=-1),
        record_batches.batch(TestRecord(), TestRecord(), record_count=1),
        record_batches.batch(TestRecord(), TestRecord(), last_offset_delta=0),
        record_batches.batch(body=b"\x0e\x00\x00\x00\x01\x01\x10", record_count=1, last_offset_delta=0),
        record_batches.batch(body=b"\xff" * 40, record_count=1, last_offset_delta=0),
        record_batches.batch(
            body=record_batches.encode_record(TestRecord(), 1) * 2, record_count=2, last_offset_delta=1
        ),
    ],
    ids=["fewer", "billions", "negative", "more", "beyond-last", "headers-lie", "no-record", "offset-twice"],
)
def test_records_that_contradict_the_batch_header_are_rejected(logs: Any, batch: bytes) -> None:
    logs.segment([batch])

    with pytest.raises(InvalidRecords, match="orders-0"):
        logs.rows()
