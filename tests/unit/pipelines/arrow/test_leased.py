"""Leased files and all that may be wrong with them: the reader then fetches from brokers, from that offset on."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.leases import Aborted, Lease, LeasedFile
from odradek.pipelines.arrow.leased_segments import LeasedSegments
from odradek.pipelines.arrow.reading import record_batches
from odradek.pipelines.arrow.schema import arrow_schema
from odradek.pipelines.arrow.sources import Chunk
from odradek.records.batch import parse_batches, patch_offset_and_epoch
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import Record

pytestmark = pytest.mark.needs("pyarrow")

PARTITION = TopicPartition("orders", 0)
EPOCH = 3


def batch(offset: int, count: int = 10, *, epoch: int = EPOCH, producer_id: int = -1) -> bytes:
    built = build_batch(
        [Record(None, b"%d" % number) for number in range(offset, offset + count)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    return with_epoch(built, offset, epoch)


def abort(offset: int, producer_id: int) -> bytes:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    built = build_end_transaction(marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset)
    return with_epoch(built, offset, EPOCH)


def with_epoch(built: bytes, offset: int, epoch: int) -> bytes:
    data = bytearray(built)
    patch_offset_and_epoch(data, parse_batches(data)[0], offset, epoch)
    return bytes(data)


class Brokers:
    """A PartitionSource that has every record, and records the requested ranges."""

    partition = PARTITION
    earliest_offset, end_offset, readable_offset = 0, 60, 60

    def __init__(self) -> None:
        self.requested: list[tuple[int, int]] = []

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        self.requested.append((from_offset, to_offset))
        data = memoryview(b"".join(batch(offset) for offset in range(from_offset // 10 * 10, to_offset, 10)))
        yield Chunk(data, parse_batches(data), None)


@pytest.fixture
def held(tmp_path: Path) -> Lease:
    """Offsets 0 to 39 in two files; behind that is what is not leased."""
    files = []
    for base in (0, 20):
        data = batch(base) + batch(base + 10)
        path = tmp_path / f".lease-a-{base:020d}.log"
        path.write_bytes(data)
        files.append(LeasedFile(str(path), base, base + 20, len(data)))
    return Lease(
        partition=PARTITION,
        lease_id="a",
        node_id=1,
        cluster_id="c",
        endpoint=Address("127.0.0.1", 1),
        duration_ms=1_000,
        renew_at_s=0.0,
        leader_epoch=EPOCH,
        log_start_offset=0,
        files=tuple(files),
        aborted=(),
    )


def offsets(held: Lease, brokers: Brokers, start: int, end: int, **options: Any) -> list[int]:
    source = LeasedSegments(held, brokers, **{"read_committed": True, **options})
    found = record_batches(source, arrow_schema(["offset"]), start, end)
    return [offset for one in found for offset in one.column(0).to_pylist()]


def test_files_are_read_before_brokers(held: Lease) -> None:
    brokers, kept = Brokers(), []
    assert offsets(held, brokers, 0, 60, keep=kept.append) == list(range(60))
    assert brokers.requested == [(40, 60)]
    assert kept == [held, held]
    for start, end in ((0, 40), (3, 7), (17, 23), (20, 40), (39, 40)):
        assert offsets(held, brokers, start, end) == list(range(start, end))
    part = held.part(25, 60)
    assert part is not None and len(part.files) == 1
    assert offsets(part, brokers, 25, 60) == list(range(25, 60))
    assert brokers.requested == [(40, 60), (40, 60)]
    assert held.part(40, 60) is None


def test_offsets_outside_the_lease_come_from_brokers(held: Lease) -> None:
    brokers = Brokers()
    # Deleted when the lease was granted: brokers say so.
    assert offsets(replace(held, log_start_offset=5), brokers, 0, 60) == list(range(60))
    assert offsets(replace(held, files=held.files[1:]), brokers, 10, 60) == list(range(10, 60))
    assert brokers.requested == [(0, 60), (10, 60)]


def missing(file: Path) -> None:
    file.unlink()


def unreadable(file: Path) -> None:
    """As for a user without permission: the path cannot be opened as a file."""
    file.unlink()
    file.symlink_to("/proc/1/mem")


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def longer(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(batch(40))


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def of_another_leader(file: Path) -> None:
    """The same offsets and sizes, after an unclean election."""
    file.write_bytes(batch(20) + batch(30, epoch=EPOCH + 1))


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize("harm", [missing, unreadable, cut, emptied, longer, flipped, of_another_leader, zeroed])
def test_a_file_that_differs_from_the_lease_falls_back_to_brokers(
    held: Lease, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    harm(Path(held.files[1].path))

    assert offsets(held, brokers, 0, 60) == list(range(60))

    # Records of the first file are not requested again.
    assert brokers.requested == [(20, 60)]
    assert "Reading orders-0 from brokers from offset 20" in caplog.text


def test_a_file_modified_while_it_is_read_is_detected(held: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.pipelines.arrow.segments.CHUNK_BYTES", len(batch(0)) + 1)
    brokers = Brokers()
    first, second = batch(20, epoch=EPOCH), Path(held.files[1].path)
    source = LeasedSegments(held, brokers, read_committed=True)
    chunks = source.chunks(20, 40)
    assert next(chunks).headers[0].base_offset == 20
    state = second.stat()
    # In place, and in the end of the same size.
    os.truncate(second, len(first))
    with second.open("ab") as opened:
        opened.write(batch(30))
    assert second.stat().st_ino == state.st_ino and second.stat().st_size == state.st_size
    list(chunks)
    assert brokers.requested == [(30, 40)]


def test_aborted_records_are_skipped(held: Lease) -> None:
    path = Path(held.files[0].path)
    data = batch(0, 5, producer_id=7) + batch(5, 5) + abort(10, 7) + batch(11, 4, producer_id=7) + batch(15, 5)
    path.write_bytes(data)
    first = held.files[0]._replace(size=len(data))
    of_producer = replace(held, files=(first, held.files[1]), aborted=(Aborted(7, 0, 10),))
    brokers = Brokers()

    assert offsets(of_producer, brokers, 0, 20) == [*range(5, 10), *range(11, 20)]
    assert offsets(of_producer, brokers, 3, 20) == [*range(5, 10), *range(11, 20)]
    assert offsets(of_producer, brokers, 0, 20, read_committed=False) == [*range(10), *range(11, 20)]
    later = of_producer.part(11, 20)
    assert later is not None and later.aborted == ()
    assert offsets(later, brokers, 11, 20) == list(range(11, 20))
    assert not brokers.requested
