"""Log directories: what is in them is read whole, what is damaged or not decided is never read."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import odradek
from odradek.base.errors import KafkaError
from odradek.client.errors import UnknownPartition, UnknownTopic
from odradek.host.disk import HostDisk
from odradek.pipelines.arrow.segments import DirectoryInUse
from odradek.pipelines.arrow.sources import OffsetsNotThere
from odradek.records.batch import CorruptBatch
from odradek.records.builder import build_batch
from odradek.records.compression import Compression
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import Record

pytestmark = pytest.mark.needs("pyarrow")


def batch(offset: int, count: int = 10, **fields: Any) -> bytes:
    records = [Record(b"k", b"%d" % number) for number in range(offset, offset + count)]
    return build_batch(records, base_offset=offset, **fields)


def transactional(offset: int, producer_id: int, count: int = 10) -> bytes:
    return batch(offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return build_end_transaction(
        EndTransactionMarker(committed=committed, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=0,
        base_offset=offset,
    )


def test_segments_in_their_order_and_parts_of_them(logs: Any) -> None:
    logs.segment([batch(100), batch(110)], base_offset=100)
    logs.segment([batch(0), batch(10)], base_offset=0)
    logs.segment([], base_offset=200)

    assert logs.column("offset") == [*range(20), *range(100, 120)]
    assert logs.column("offset", start=15, end=105) == [*range(15, 20), *range(100, 105)]
    assert logs.column("offset", start={0: 113}) == list(range(113, 120))
    assert logs.column("offset", end=0) == []
    with pytest.raises(OffsetsNotThere, match="up to offset 120, not up to 121"):
        logs.reader(end=121)


def test_deleted_offsets_are_not_readable(logs: Any) -> None:
    logs.segment([batch(0), batch(10)])
    (logs.path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 13\n")

    assert logs.column("offset") == list(range(13, 20))
    with pytest.raises(OffsetsNotThere, match=r"starts at offset 13\. Offset 5 was deleted"):
        logs.reader(start=5)


def test_a_batch_larger_than_a_chunk_is_read(logs: Any) -> None:
    large = build_batch([Record(None, bytes(3_000_000)), Record(None, bytes(2_500_000))], base_offset=10)
    logs.segment([batch(0), large, batch(12)])

    assert [len(value) for value in logs.column("value")][10:12] == [3_000_000, 2_500_000]


def test_aborted_and_open_transactions(logs: Any) -> None:
    logs.segment(
        [
            transactional(0, 7),
            transactional(10, 8),
            batch(20),
            marker(30, 7, committed=False),
            transactional(31, 7, 9),
        ]
    )
    logs.segment(
        [
            marker(40, 8, committed=True),
            marker(41, 7, committed=True),
            batch(42, 8),
            transactional(50, 9),
            batch(60),
        ],
        base_offset=40,
    )

    committed = [*range(10, 30), *range(31, 40), *range(42, 50)]

    assert logs.column("offset") == committed
    assert logs.column("offset", start=25) == [offset for offset in committed if offset >= 25]
    assert logs.column("offset", read_committed=False) == sorted([*range(10), *committed, *range(50, 70)])
    with pytest.raises(OffsetsNotThere, match="up to offset 50"):
        logs.reader(end=60)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD, Compression.LZ4])
@pytest.mark.parametrize("read_committed", [True, False])
def test_a_flipped_bit_is_an_error_or_changes_nothing(
    logs: Any, make_logs: Callable[[str], Any], codec: Compression, read_committed: bool
) -> None:
    """Nothing protects the leader's epoch, which no reader sees, and of offsets only that they grow."""
    whole = b"".join(
        [
            batch(0, 20, compression=codec),
            transactional(20, 7),
            marker(30, 7, committed=False),
            transactional(31, 8),
            marker(41, 8, committed=True),
            batch(42, 20, compression=codec),
        ]
    )
    logs.segment([whole])
    logs.segment([batch(62)], base_offset=62)
    right = logs.rows(read_committed=read_committed)
    random = Random(codec)
    damaged = make_logs("damaged")
    damaged.segment([batch(62)], base_offset=62)
    noticed = 0
    for _ in range(120):
        place = random.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[place] ^= 1 << random.randrange(8)
        damaged.segment([bytes(flipped)])
        try:
            rows = damaged.rows(read_committed=read_committed)
        except (KafkaError, pa.ArrowException) as error:
            assert isinstance(error, CorruptBatch), error
            noticed += 1
        else:
            values = [row["value"] for row in rows]
            assert values == [row["value"] for row in right], f"byte {place}"
    assert noticed > 100


def test_a_truncated_log(logs: Any) -> None:
    whole = batch(0) + batch(10)
    for size in (len(whole) - 1, len(whole) - 120, len(batch(0)) + 30, len(batch(0)) + 5):
        logs.segment([whole[:size]])
        for read_committed in (True, False):
            with pytest.raises(CorruptBatch, match=r"00\.log, position \d+.*Start the directory's broker once"):
                logs.rows(read_committed=read_committed)
            assert logs.column("offset", end=10, read_committed=read_committed) == list(range(10))


def test_zeros_behind_the_log_and_an_unfinished_compaction(logs: Any) -> None:
    file = logs.segment([batch(0), bytes(500)])
    with pytest.raises(CorruptBatch, match="position"):
        logs.rows()
    file.write_bytes(batch(0))
    Path(f"{file}.swap").write_bytes(batch(0))
    with pytest.raises(CorruptBatch, match="unfinished compaction"):
        logs.rows()


def test_decreasing_offsets_are_data_loss(logs: Any) -> None:
    logs.segment([batch(10), batch(5)])
    with pytest.raises(CorruptBatch, match="offsets 5 to 14"):
        logs.rows(read_committed=False)


def test_a_compression_bomb_is_rejected(logs: Any) -> None:
    bomb = build_batch([Record(None, bytes(200 * 1024 * 1024))], compression=Compression.ZSTD)
    logs.segment([bomb])
    with pytest.raises(KafkaError, match="when decompressed"):
        logs.rows()


def test_a_directory_in_use_by_a_broker_is_rejected(logs: Any) -> None:
    logs.segment([batch(0)])
    lock = HostDisk().lock(f"{logs.path}/.lock")
    try:
        with pytest.raises(DirectoryInUse, match="bootstrap_servers"):
            logs.reader()
    finally:
        lock.release()
    assert len(logs.rows()) == 10


def test_missing_topics_and_arguments_are_errors(logs: Any) -> None:
    logs.segment([batch(0)])
    with pytest.raises(UnknownTopic, match="Topic 'ordres' does not exist"):
        odradek.read_topic("ordres", directory=logs.path)
    with pytest.raises(UnknownPartition):
        logs.reader(partitions=[3])
    with pytest.raises(ValueError, match="Set either bootstrap_servers"):
        odradek.read_topic("orders")


def test_importing_odradek_stays_light() -> None:
    program = "import sys, odradek; print({'numba', 'numpy', 'pyarrow', 'kio'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
