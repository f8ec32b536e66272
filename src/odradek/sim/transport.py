"""asyncio's transports and servers on the virtual network, buffering and calling back as the real ones do."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from typing_extensions import Buffer

from odradek.server.delivery import deliver
from odradek.sim.network import Network
from odradek.sim.process import Process
from odradek.sim.socket_end import SocketEnd
from odradek.sim.wire_names import WireNames

_HIGH_WATER_BYTES: Final = 64 * 1024

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class VirtualTransport(asyncio.Transport):
    def __init__(self, end: SocketEnd, protocol: asyncio.BaseProtocol, names: WireNames | None) -> None:
        super().__init__({"peername": end.remote_address, "sockname": end.local_address})
        self._end: Final = end
        self._loop: Final = end.process.loop
        self._protocol = protocol
        self._names: Final = names
        # Not copied before they are sent, as in uvloop: a program must not change a buffer until then.
        self._unsent: Final[deque[memoryview]] = deque()
        self._unsent_bytes = 0
        self._high_water_bytes = _HIGH_WATER_BYTES
        self._low_water_bytes = _HIGH_WATER_BYTES // 4
        self._writing_is_paused = False
        self._reading_is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._eof_is_wanted = False
        end.user = self
        end.notify_reader()

    # ---- the program's side: writing

    def write(self, data: Buffer) -> None:
        if self._is_lost or self._eof_is_wanted:
            return
        view = memoryview(data)
        if self._names is not None:
            self._names.on_write(self._end, view)
        if not view:
            return
        self._unsent.append(view)
        self._unsent_bytes += len(view)
        self._pump()
        if self._unsent_bytes > self._high_water_bytes and not self._writing_is_paused:
            self._writing_is_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(map(bytes, list_of_data)))

    def _pump(self) -> None:
        data = self._take_unsent(min(self._unsent_bytes, self._end.room))
        if data:
            if self._names is not None:
                self._names.on_send(self._end, data)
            self._end.send(data)
        if self._writing_is_paused and self._unsent_bytes <= self._low_water_bytes:
            self._writing_is_paused = False
            self._protocol.resume_writing()
        if not self._unsent:
            if self._is_closing:
                self._finish(None)
            elif self._eof_is_wanted:
                self._end.send_eof()

    def _take_unsent(self, size: int) -> bytes:
        unsent = self._unsent
        taken = []
        while size > 0:
            view = unsent.popleft()
            if len(view) > size:
                unsent.appendleft(view[size:])
                view = view[:size]
            taken.append(view)
            size -= len(view)
            self._unsent_bytes -= len(view)
        return bytes(taken[0]) if len(taken) == 1 else b"".join(taken)

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0

    def write_eof(self) -> None:
        self._eof_is_wanted = True
        if not self._unsent:
            self._end.send_eof()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water_bytes = _HIGH_WATER_BYTES if high is None else high
        self._low_water_bytes = self._high_water_bytes // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water_bytes, self._high_water_bytes

    # ---- the program's side: reading

    def pause_reading(self) -> None:
        self._reading_is_paused = True

    def resume_reading(self) -> None:
        if self._reading_is_paused:
            self._reading_is_paused = False
            self._end.notify_reader()

    def is_reading(self) -> bool:
        return not self._reading_is_paused and not self._is_closing

    # ---- the program's side: the rest

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if not self._unsent:
            self._finish(None)

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._drop_unsent()
            self._end.reset()
            self._brokers_without(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    # ---- the kernel's side

    def on_readable(self) -> None:
        end = self._end
        end.on_reader_called()
        if self._is_closing or self._reading_is_paused:
            return
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        data = end.take()
        if data:
            deliver(protocol, data)
        may_read = not self._is_closing and not self._reading_is_paused
        if may_read and end.take_eof() and not protocol.eof_received():
            self.close()

    def on_writable(self) -> None:
        if not self._is_lost and self._unsent:
            self._pump()

    def on_broken(self, error: OSError) -> None:
        self._is_closing = True
        self._drop_unsent()
        self._brokers_without(error)

    def _finish(self, error: OSError | None) -> None:
        self._end.close()
        self._brokers_without(error)

    def _brokers_without(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self._protocol.connection_lost, error)


class _ListeningSocket:
    """The part of the socket interface that the node uses of a listening socket."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address: Final = address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Has no effect: simulated buffers have fixed sizes."""


class VirtualServer(asyncio.AbstractServer):
    def __init__(self, network: Network, process: Process, factory: ProtocolFactory, host: str, port: int) -> None:
        """Binds the address; connections are accepted after `start_serving`. Raises OSError if it is in use."""
        self._network: Final = network
        self.process: Final = process
        self._factory: Final = factory
        self._host: Final = host
        self._port: Final = network.bind(host, port, process)
        self._is_serving = False
        self.sockets: tuple[_ListeningSocket, ...] = (_ListeningSocket((network.address_of(host), self._port)),)

    async def start_serving(self) -> None:
        self._is_serving = True
        self._network.listen(self._host, self._port, self)

    def accept(self, end: SocketEnd) -> None:
        if not end.is_open:
            return
        protocol = self._factory()
        protocol.connection_made(VirtualTransport(end, protocol, WireNames.of(end.peer)))

    def close(self) -> None:
        self._is_serving = False
        self._network.release(self._host, self._port, self.process)
        self.sockets = ()

    def is_serving(self) -> bool:
        return self._is_serving

    async def wait_closed(self) -> None:
        return None

    async def serve_forever(self) -> None:
        raise NotImplementedError

    def get_loop(self) -> Any:
        return self.process.loop


async def open_connection(
    network: Network, process: Process, factory: ProtocolFactory, source: str, target: str, port: int
) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
    waiter: asyncio.Future[tuple[VirtualTransport, asyncio.BaseProtocol]] = process.loop.create_future()

    def on_connect(end: SocketEnd) -> None:
        if waiter.done():
            # The caller has timed out.
            end.reset()
            return
        protocol = factory()
        transport = VirtualTransport(end, protocol, WireNames.of(end))
        protocol.connection_made(transport)
        waiter.set_result((transport, protocol))

    def on_failure(error: OSError) -> None:
        if not waiter.done():
            waiter.set_exception(error)

    network.connect(process, source, target, port, on_connect, on_failure)
    return await waiter
