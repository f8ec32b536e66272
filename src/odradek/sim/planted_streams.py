"""Bugs of streamed Fetch responses, switched on by name. Only the bytes on the wire show most of them."""

import asyncio
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from odradek.base.ports import DiskFile
from odradek.server.connection import ClientConnection
from odradek.server.limits import NodeConnectionLimits
from odradek.server.response_sender import ResponseSender
from odradek.server.response_stream import ResponseStream
from odradek.sim.disk_port import VirtualDiskPort, VirtualFile
from odradek.sim.planted_bug import always, plant
from odradek.sim.scenarios import SLOW_READERS
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.file_range import Extent, FileRange, RangeEnded
from odradek.storage.log.lazy_file import LazyFile


def _forget_truncations(sound: Any) -> Any:
    """Only the removal of a file still ends ranges."""

    def covers(self: Extent, end: int) -> bool:
        covered: bool = sound(self, 1)
        return covered

    return covers


def _check_size_only(sound: Any) -> Any:
    """The range is valid again as soon as the file is as long as before."""

    def check(self: FileRange) -> None:
        if not self._extent.covers(1) or self._file.size() < self._position + self._size:
            raise RangeEnded("the file is too short")

    return check


def _pad(sound: Any) -> Any:
    def read_into(self: FileRange, start: int, buffer: memoryview) -> int:
        count = self._file.read_into(self._position + start, buffer)
        buffer[count:] = bytes(len(buffer) - count)
        return len(buffer)

    return read_into


def _send_again(sound: Any) -> Any:
    """A chunk that was read in a thread is read once more for the next one."""

    def read_into(self: ResponseStream, buffer: memoryview, *, cached: bool) -> int:
        part, start = self._parts[0], self._start
        count: int = sound(self, buffer, cached=cached)
        if not cached and self._parts and self._parts[0] is part:
            self._start = start
        return count

    return read_into


def _skip_chunk(sound: Any) -> Any:
    """A chunk that was only partly cached is dropped, and the next one is read in a thread."""

    def read_into(self: ResponseStream, buffer: memoryview, *, cached: bool) -> int:
        part, start = self._parts[0], self._start
        count: int = sound(self, buffer, cached=cached)
        if not cached and self._parts and self._parts[0] is part and len(part) - self._start > self._start - start:
            self._start += self._start - start
        return count

    return read_into


def _do_not_wait_for_the_socket(sound: Any) -> Any:
    def write(self: ResponseSender, buffer: bytearray, count: int) -> None:
        sound(self, buffer, count)
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_soon(self._send_next)

    return write


_closed: Final[WeakKeyDictionary[VirtualDiskPort, list[VirtualFile]]] = WeakKeyDictionary()
"""Files whose descriptors are free, although ranges still use them."""


def _close_at_once(sound: Any) -> Any:
    def abandon(self: LazyFile) -> None:
        file = self._slot.get(0)
        sound(self)
        if isinstance(file, VirtualFile):
            _closed.setdefault(file._port, []).append(file)

    return abandon


def _reuse_descriptor(sound: Any) -> Any:
    def open_file(self: VirtualDiskPort, path: str, **how: Any) -> DiskFile:
        file: VirtualFile = sound(self, path, **how)
        closed = _closed.get(self)
        if closed:
            closed.pop(0)._node = file._node
        return file

    return open_file


def _close_only_unless_sending(sound: Any) -> Any:
    def close_idle(self: NodeConnectionLimits) -> None:
        for connection in self._open:
            if connection._sender is not None and connection._sender.is_sending:
                connection.last_active = self.monotonic()
        sound(self)

    return close_idle


_bug: Final = partial(plant, scenario=SLOW_READERS)

STREAM_BUGS: Final = (
    _bug(
        "truncated-range-sent",
        "a range that was truncated is sent as it is",
        Extent,
        "covers",
        _forget_truncations,
    ),
    _bug(
        "truncated-range-reused",
        "a truncated range counts as valid again once the file has grown to its end",
        FileRange,
        "_check",
        _check_size_only,
    ),
    _bug(
        "short-response-padded",
        "the rest of a response whose range ended is filled with zeros",
        FileRange,
        "read_into",
        _pad,
        (Extent, "covers", _forget_truncations),
    ),
    _bug(
        "chunk-sent-twice",
        "a chunk that was read in a thread is sent twice",
        ResponseStream,
        "read_into",
        _send_again,
    ),
    _bug(
        "chunk-skipped",
        "the chunk after one that was read in a thread is not sent",
        ResponseStream,
        "read_into",
        _skip_chunk,
    ),
    _bug(
        "chunk-overwritten",
        "the next chunk is read into the buffer before the socket has taken all of the last one",
        ResponseSender,
        "_write",
        _do_not_wait_for_the_socket,
    ),
    _bug(
        "deleted-file-descriptor-reused",
        "the descriptor of a deleted file is closed while ranges use it, and refers to the next opened file",
        LazyFile,
        "abandon",
        _close_at_once,
        (VirtualDiskPort, "open", _reuse_descriptor),
    ),
    _bug(
        "deleted-file-kept-for-reader",
        "a response keeps a deleted file in use after the file's deletion delay",
        BatchFile,
        "end_ranges",
        always(None),
    ),
    _bug(
        "response-continued-after-deadline",
        "a connection that is sending is never closed, however long its client takes no byte",
        NodeConnectionLimits,
        "close_idle",
        _close_only_unless_sending,
    ),
    _bug(
        "response-abandoned",
        "the connection stays open after the rest of a response could not be read",
        ClientConnection,
        "_on_stream_failure",
        always(None),
    ),
)
