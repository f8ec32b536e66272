"""A streamed response is the same bytes, in whatever portions it is read; and the buffers into which it is read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ports import Pool
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.server.response_stream import ReadFailed, ResponseStream
from odradek.server.send_buffers import LARGE_BYTES, LARGE_MAX, SMALL_BYTES, SendBuffers
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.file_range import FileRange
from odradek.wire.streamed_response import Part, StreamedRecords, StreamedResponse

CONTENT = bytes(range(256))
THREADS = ThreadExecutor(dict.fromkeys(Pool, 1))
"""Never used: these ranges are read by the tests."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> BatchFile:
    path: Path = tmp_path_factory.mktemp("stream") / "0.log"
    path.write_bytes(CONTENT)
    return BatchFile(HostDisk(), str(path), len(CONTENT))


@given(
    parts=st.lists(st.one_of(st.binary(max_size=20), st.tuples(st.integers(0, 200), st.integers(0, 56))), max_size=8),
    sizes=st.lists(st.integers(1, 40), min_size=1),
    cached=st.booleans(),
)
def test_portions_add_up_to_the_response(
    file: BatchFile, parts: list[bytes | tuple[int, int]], sizes: list[int], cached: bool
) -> None:
    expected = b"".join(part if isinstance(part, bytes) else CONTENT[part[0] : sum(part)] for part in parts)
    response = StreamedResponse([part if isinstance(part, bytes) else _records(file, *part) for part in parts])
    assert response.size == len(expected)
    stream = ResponseStream(response.parts)
    read = b""
    for number in range(len(expected) + 1):
        if stream.is_done:
            break
        buffer = bytearray(sizes[number % len(sizes)])
        count = stream.read_into(memoryview(buffer), cached=cached)
        assert count
        read += buffer[:count]
    assert stream.is_done
    assert read == expected


def _records(file: BatchFile, position: int, size: int) -> Part:
    return StreamedRecords(FileRange(file.file(), file.extent, position, size), THREADS, lambda error: None)


def test_cold_bytes_end_a_read_from_the_page_cache() -> None:
    class HalfCold:
        """Only its first three bytes are in the page cache."""

        def read_into(self, position: int, buffer: memoryview) -> int:
            buffer[:] = CONTENT[position : position + len(buffer)]
            return len(buffer)

        def read_cached_into(self, position: int, buffer: memoryview) -> int:
            return self.read_into(position, buffer[: max(0, 3 - position)])

    extent = BatchFile(HostDisk(), "", 0).extent
    records = StreamedRecords(FileRange(HalfCold(), extent, 0, 5), THREADS, lambda error: None)  # type: ignore[arg-type]
    stream = ResponseStream([b"head", records, b"tail"])
    buffer = bytearray(20)
    assert stream.read_into(memoryview(buffer), cached=True) == 7
    assert stream.read_into(memoryview(buffer), cached=True) == 0
    assert stream.read_into(memoryview(buffer), cached=False) == 6
    assert buffer[:6] == CONTENT[3:5] + b"tail"
    assert stream.is_done


def test_disk_error_is_reported_with_its_log_dir() -> None:
    class Failing:
        def read_into(self, position: int, buffer: memoryview) -> int:
            raise OSError(5, "Input/output error")

    reported: list[OSError] = []
    extent = BatchFile(HostDisk(), "", 0).extent
    records = StreamedRecords(FileRange(Failing(), extent, 0, 5), THREADS, reported.append)  # type: ignore[arg-type]
    with pytest.raises(ReadFailed) as raised:
        ResponseStream([records]).read_into(memoryview(bytearray(5)), cached=False)
    raised.value.report()
    assert [error.errno for error in reported] == [5]


def test_slow_client_gets_a_small_buffer_and_returns_the_large_one() -> None:
    buffers = SendBuffers()
    small = buffers.exchange(None, is_fast=False)
    assert len(small) == SMALL_BYTES
    assert buffers.exchange(small, is_fast=False) is small
    large = buffers.exchange(small, is_fast=True)
    assert len(large) == LARGE_BYTES
    assert len(buffers.exchange(large, is_fast=False)) == SMALL_BYTES
    assert buffers.exchange(None, is_fast=True) is large


def test_large_buffers_are_limited() -> None:
    buffers = SendBuffers()
    taken = [buffers.exchange(None, is_fast=True) for _ in range(LARGE_MAX)]
    assert {len(one) for one in taken} == {LARGE_BYTES}
    small = buffers.exchange(None, is_fast=True)
    assert len(small) == SMALL_BYTES
    assert buffers.exchange(small, is_fast=True) is small
    buffers.drop(taken.pop())
    assert len(buffers.exchange(small, is_fast=True)) == LARGE_BYTES
