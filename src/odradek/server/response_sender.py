"""Sends streamed responses of one connection: one chunk at a time, the next one when the socket has taken it.

A chunk is read from the page cache on the event loop, or in a thread if the disk is needed. A client that reads slowly
keeps one chunk in memory, and after its first slow chunk a small one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ports import Executor, Pool
from odradek.records.batch import CorruptBatch
from odradek.server.response_stream import ReadFailed, ResponseStream
from odradek.server.send_buffers import SendBuffers
from odradek.storage.log.file_range import RangeEnded
from odradek.wire.streamed_response import Part

logger = logging.getLogger(__name__)

# A client that takes longer for a chunk is slow.
FAST_CHUNK_SECONDS_MAX: Final = 0.1
UNREADABLE: Final = "Cannot read records to be sent"


@dataclass(frozen=True, slots=True)
class Streaming:
    """What the senders of a node share."""

    executor: Executor
    buffers: SendBuffers = field(default_factory=SendBuffers)


class ResponseSender:
    def __init__(
        self,
        transport: asyncio.Transport,
        streaming: Streaming,
        monotonic: Callable[[], float],
        *,
        on_sent: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`on_sent` is called when a response has left, `on_failure` if the rest of it cannot be sent."""
        self._transport: Final = transport
        self._buffers: Final = streaming.buffers
        self._executor: Final = streaming.executor
        self._monotonic: Final = monotonic
        self._on_sent: Final = on_sent
        self._on_failure: Final = on_failure
        self._limits: Final = transport.get_write_buffer_limits()
        self._stream: ResponseStream | None = None
        # The transport may still read from it.
        self._buffer: bytearray | None = None
        # Whether the client took the last chunk in time. A new client has to show it first.
        self._is_fast = False
        self._chunk_written_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_sending(self) -> bool:
        return self._stream is not None

    def send(self, parts: Iterable[Part]) -> None:
        assert self._stream is None, "one response at a time"
        self._stream = ResponseStream(parts)
        # Report each chunk that the socket does not take at once, and again when it has taken all of it.
        self._transport.set_write_buffer_limits(0)
        self._send_chunk()

    def on_drained(self) -> None:
        """The socket has taken the whole chunk."""
        self._is_fast = self._monotonic() - self._chunk_written_at <= FAST_CHUNK_SECONDS_MAX
        self._send_next()

    def stop(self) -> None:
        """The connection is closed. A thread may still fill the buffer, so it is not used again."""
        self._stream = None
        self._buffers.drop(self._buffer)
        self._buffer = None
        if self._reading is not None:
            self._reading.cancel()

    def _send_next(self) -> None:
        stream = self._stream
        if stream is None:
            return
        if not stream.is_done:
            self._send_chunk()
            return
        self._stream = None
        self._buffers.give_back(self._buffer)
        self._buffer = None
        low, high = self._limits
        self._transport.set_write_buffer_limits(high, low)
        self._on_sent()

    def _send_chunk(self) -> None:
        stream = self._stream
        assert stream is not None
        buffer = self._buffer = self._buffers.exchange(self._buffer, is_fast=self._is_fast)
        try:
            count = stream.read_into(memoryview(buffer), cached=True)
        except (CorruptBatch, RangeEnded, ReadFailed) as error:
            self._fail(error)
            return
        except Exception as error:
            # Called by the event loop: an internal error closes this connection only.
            logger.exception(UNREADABLE)
            self._fail(error)
            return
        if count:
            self._write(buffer, count)
        else:
            self._reading = asyncio.ensure_future(self._read_in_thread(stream, buffer))

    async def _read_in_thread(self, stream: ResponseStream, buffer: bytearray) -> None:
        try:
            count = await (stream.threads or self._executor).run(
                partial(stream.read_into, memoryview(buffer), cached=False), pool=Pool.READ
            )
        except asyncio.CancelledError:
            raise
        except (CorruptBatch, RangeEnded, ReadFailed, KafkaError, OSError) as error:
            # The last two: the disk does not respond.
            self._fail(error)
            return
        except Exception as error:
            # An internal error closes this connection only.
            logger.exception(UNREADABLE)
            self._fail(error)
            return
        self._reading = None
        if self._stream is stream:
            self._write(buffer, count)

    def _write(self, buffer: bytearray, count: int) -> None:
        self._chunk_written_at = self._monotonic()
        transport = self._transport
        transport.write(memoryview(buffer)[:count])
        if not transport.get_write_buffer_size():
            self._is_fast = True
            # Other connections first.
            asyncio.get_running_loop().call_soon(self._send_next)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ReadFailed):
            error.report()
        self.stop()
        self._on_failure(str(error))
