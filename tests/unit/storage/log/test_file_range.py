"""Ranges of log files that are sent later: what keeps them readable, and what ends them."""

from pathlib import Path

import pytest

from odradek.host.disk import HostDisk
from odradek.records.batch import CorruptBatch
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.file_range import Extent, FileRange, RangeEnded

CONTENT = b"0123456789"


@pytest.fixture
def file(tmp_path: Path) -> BatchFile:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    return BatchFile(HostDisk(), str(path), len(CONTENT))


def range_of(file: BatchFile, position: int, size: int) -> FileRange:
    return FileRange(file.file(), file.extent, position, size)


def read(file_range: FileRange, start: int = 0) -> bytes:
    buffer = bytearray(len(file_range) - start)
    assert file_range.read_into(start, memoryview(buffer)) == len(buffer)
    return bytes(buffer)


def test_range_is_read_in_parts(file: BatchFile) -> None:
    file_range = range_of(file, 2, 5)
    assert len(file_range) == 5
    assert read(file_range) == b"23456"
    assert read(file_range, 3) == b"56"
    assert file_range.read(cached=False) == b"23456"
    buffer = bytearray(2)
    assert file_range.read_cached_into(0, memoryview(buffer)) == 2
    assert buffer == b"23"


def test_range_of_a_removed_file_stays_readable(file: BatchFile) -> None:
    file_range = range_of(file, 0, 10)
    file.handle.release()
    Path(file.path).unlink()
    assert read(file_range) == CONTENT


def test_truncation_ends_exactly_the_ranges_that_it_shortens(file: BatchFile) -> None:
    kept, shortened = range_of(file, 0, 6), range_of(file, 0, 7)
    file.truncate(6)
    assert read(kept) == b"012345"
    for attempt in (lambda: read(shortened), lambda: shortened.read(cached=False), lambda: shortened.read(cached=True)):
        with pytest.raises(RangeEnded):
            attempt()


def test_bytes_written_after_a_truncation_are_not_read_through_an_older_range(file: BatchFile) -> None:
    older = range_of(file, 0, 10)
    file.truncate(4)
    file.append(b"abcdef", 0)
    assert read(range_of(file, 0, 10)) == b"0123abcdef"
    with pytest.raises(RangeEnded):
        read(older)


def test_every_later_truncation_counts(file: BatchFile) -> None:
    first = range_of(file, 0, 5)
    file.truncate(9)
    second = range_of(file, 0, 6)
    file.truncate(6)
    assert (read(first), read(second)) == (b"01234", b"012345")
    file.truncate(5)
    assert read(first) == b"01234"
    with pytest.raises(RangeEnded):
        read(second)
    file.truncate(4)
    with pytest.raises(RangeEnded):
        read(first)


def test_extent_truncated_twice_has_the_smaller_size() -> None:
    extent = Extent()
    following = extent.truncate(5)
    assert extent.truncate(8) is following
    assert extent.covers(5)
    assert not extent.covers(6)
    assert following.covers(100)


def test_end_of_ranges_ends_all_of_them(file: BatchFile) -> None:
    file_range = range_of(file, 0, 1)
    file.end_ranges()
    with pytest.raises(RangeEnded):
        read(file_range)


def test_file_that_is_too_short_is_corrupt(file: BatchFile) -> None:
    file_range = range_of(file, 5, 10)
    with pytest.raises(CorruptBatch, match="5 of 10 bytes"):
        read(file_range)
    with pytest.raises(CorruptBatch, match="5 of 10 bytes"):
        file_range.read(cached=False)
