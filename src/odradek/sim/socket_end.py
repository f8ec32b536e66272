"""One end of a TCP connection, as a kernel keeps it for a process, and the link that carries its segments."""

from collections import deque
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Final, Protocol
from zlib import crc32

from odradek.sim.process import Process
from odradek.sim.scheduler import Scheduler

if TYPE_CHECKING:
    from odradek.sim.network import Network
    from odradek.sim.wire_names import ResponseWatcher, Watcher, WireNames

# The maximum of bytes in flight or unread at the peer, before the sender has to wait.
WINDOW_BYTES: Final = 65_536
_SEGMENT_BYTES_MAX: Final = 65_536
_SPLIT_PROBABILITY: Final = 0.12
_PIECES_MAX: Final = 4
_LATENCY_SECONDS: Final = 0.0002
_RETRANSMISSION_SECONDS: Final = 0.2
_CRAWLING_BYTES: Final = 200
_CRAWLING_SECONDS: Final = 0.15


class Link:
    """One direction between two hosts."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler: Final = scheduler
        self._random: Final = random
        self.is_blocked = False
        self.extra_seconds = 0.0
        self.loss_probability = 0.0

    def become_normal(self) -> None:
        self.extra_seconds = 0.0
        self.loss_probability = 0.0

    def latency_seconds(self) -> float:
        random = self._random
        seconds = _LATENCY_SECONDS + random.expovariate(1 / _LATENCY_SECONDS) + random.random() * self.extra_seconds
        wait = _RETRANSMISSION_SECONDS
        while self.loss_probability and random.random() < self.loss_probability:
            seconds += wait
            wait *= 2
        return seconds

    def carry(self, arrive: Callable[[], object]) -> None:
        """Sends a segment that is not retransmitted: a blocked link drops it."""
        if not self.is_blocked:
            self._scheduler.call_after(self.latency_seconds(), arrive)

    def block_links(self, data: bytes) -> list[bytes]:
        """Splits bytes into the segments in which they arrive."""
        size = len(data)
        random = self._random
        if size > 1 and random.random() < _SPLIT_PROBABILITY:
            places = sorted(random.randrange(1, size) for _ in range(random.randrange(1, _PIECES_MAX)))
        elif size <= _SEGMENT_BYTES_MAX:
            return [data]
        else:
            places = list(range(_SEGMENT_BYTES_MAX, size, _SEGMENT_BYTES_MAX))
        return [data[start:end] for start, end in zip([0, *places], [*places, size], strict=True) if start < end]

    def repeat_seconds(self) -> float:
        """How long after a link is unblocked the sender's kernel retransmits."""
        return self._random.uniform(0.0, 1.0)


class SlowReader:
    """A host that takes the bytes of its responses late, and has a small receive buffer."""

    def __init__(
        self, random: Random, *, window_bytes: int, mean_seconds: float, stall_share: float, stall_seconds_max: float
    ) -> None:
        self._random: Final = random
        self._window_bytes: Final = window_bytes
        self._mean_seconds: Final = mean_seconds
        self._stall_share: Final = stall_share
        self._stall_seconds_max: Final = stall_seconds_max
        self.is_slow = True
        # While it crawls, it takes less than clients write.
        self.is_crawling = False

    @property
    def window_bytes(self) -> int:
        if not self.is_slow:
            return WINDOW_BYTES
        return _CRAWLING_BYTES if self.is_crawling else self._window_bytes

    def seconds(self) -> float:
        """How long it takes until the sender has room again."""
        if not self.is_slow:
            return 0.0
        random = self._random
        if self.is_crawling:
            return random.expovariate(1 / _CRAWLING_SECONDS)
        if random.random() < self._stall_share:
            return random.uniform(0.0, self._stall_seconds_max)
        return random.expovariate(1 / self._mean_seconds)


class EndUser(Protocol):
    """The program's side of a connection. Called on the loop of its process."""

    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...

    def on_broken(self, error: OSError) -> None: ...


class _State(Enum):
    OPEN = 1
    # The program closed it, or died; arriving segments are rejected.
    CLOSED = 2
    # Nothing more is sent or received.
    RESET = 3


class SocketEnd:
    def __init__(
        self,
        network: "Network",
        process: Process,
        link: Link,
        host: str,
        port: int,
        remote_host: str,
        remote_port: int,
    ) -> None:
        self._network: Final = network
        self.process: Final = process
        self.link: Final = link
        self.host: Final = host
        self._computer: Final = network.host(host)
        self.port: Final = port
        self.remote_host: Final = remote_host
        self.remote_port: Final = remote_port
        self.peer: SocketEnd
        self.user: EndUser | None = None
        # Kept at the end that connected, for both.
        self.names: WireNames | None = None
        self._state = _State.OPEN
        self.ended_seconds: float | None = None
        """When the program closed it, it was reset, or its process ended."""
        # Received and not yet read by the program.
        self._received: Final[deque[bytes]] = deque()
        self._eof_received = False
        self._eof_taken = False
        self._eof_sent = False
        self._is_reader_notified = False
        # Sent, and not read at the other end.
        self._outstanding = 0
        self._last_arrival = 0.0
        # Segments that wait for a blocked link. None: the end of the stream.
        self._assigned: list[bytes | None] = []
        self.was_addressed = False
        # This connection is delayed while others on the link are not.
        self.is_stalled = False
        self._slow_reader: SlowReader | None = None

    @property
    def remote(self) -> str:
        return f"{self.remote_host}:{self.remote_port}"

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def process_is_gone(self) -> bool:
        return not self.process.is_alive

    @property
    def local_address(self) -> tuple[str, int]:
        return self._network.address_of(self.host), self.port

    @property
    def remote_address(self) -> tuple[str, int]:
        return self._network.address_of(self.remote_host), self.remote_port

    def watcher(self, api_key: int) -> "Watcher | None":
        return self._network.watchers.get(api_key)

    def response_watcher(self, api_key: int) -> "ResponseWatcher | None":
        return self._network.response_watchers.get(api_key)

    def note(self, what: str) -> None:
        self._network.note(self.host, what)

    def join(self, other: "SocketEnd") -> None:
        self.peer, other.peer = other, self
        self._slow_reader = self._network.slow_reader(self.host, self.remote_port)

    # ---- sending

    @property
    def room(self) -> int:
        room = self.peer.window_bytes - self._outstanding
        if self.peer.has_own_window and room < self.peer.window_bytes // 2:
            # Like a kernel, it does not fill small windows with tiny segments.
            return 0
        return room

    @property
    def has_own_window(self) -> bool:
        return self._slow_reader is not None

    @property
    def window_bytes(self) -> int:
        return WINDOW_BYTES if self._slow_reader is None else self._slow_reader.window_bytes

    def send(self, data: bytes) -> None:
        if self._state is not _State.OPEN or self._eof_sent:
            return
        self._outstanding += len(data)
        for piece in self.link.block_links(data):
            self._dispatch(piece)

    def send_eof(self) -> None:
        if self._state is _State.OPEN and not self._eof_sent:
            self._eof_sent = True
            self._dispatch(None)

    def _dispatch(self, piece: bytes | None) -> None:
        if self.link.is_blocked or self.is_stalled or self._assigned:
            self._assigned.append(piece)
        else:
            self._deliver(piece, self.process.now + self.link.latency_seconds())

    def _deliver(self, piece: bytes | None, when: float) -> None:
        # Bytes do not overtake each other.
        self._last_arrival = when = max(when, self._last_arrival)
        self.process.scheduler.call_at(when, self.peer.arrive, piece)

    def send_held(self) -> None:
        if self.is_stalled or self.link.is_blocked:
            return
        held, self._assigned = self._assigned, []
        if held:
            when = self.process.scheduler.now + self.link.repeat_seconds()
            for piece in held:
                self._deliver(piece, when)

    # ---- receiving

    def arrive(self, piece: bytes | None) -> None:
        if not self._computer.is_on:
            self.was_addressed = True
            return
        if self._state is _State.CLOSED and piece is not None:
            self.note(f"refuses {len(piece)} bytes from {self.remote}: port {self.port} is closed")
            self.refuse_more()
        if self._state is not _State.OPEN:
            return
        if piece is None:
            self._eof_received = True
        else:
            note = f"gets {len(piece)} bytes {crc32(piece):08x} from {self.remote_host}:{self.remote_port}"
            self._network.note(self.host, note)
            self._received.append(piece)
        self.notify_reader()

    def refuse_more(self, seconds: float = 0.0) -> None:
        """Responds with a reset, as for a connection that the kernel does not know."""
        if not self.link.is_blocked:
            when = self.process.scheduler.now + seconds + self.link.latency_seconds()
            self.process.scheduler.call_at(when, self.peer.receive_reset)

    def receive_reset(self) -> None:
        if self._state is _State.RESET or not self._computer.is_on:
            return
        was_open = self._state is _State.OPEN
        self._forget(_State.RESET)
        if was_open and self.user is not None:
            self.note(f"loses its connection on port {self.port} to {self.remote}")
            self.process.loop.call_soon(self.user.on_broken, ConnectionResetError(104, "Connection reset by peer"))

    def notify_reader(self) -> None:
        """Called when bytes arrive, and when the program starts to read again."""
        if self.user is not None and not self._is_reader_notified and (self._received or self._eof_is_due):
            self._is_reader_notified = True
            self.process.loop.call_soon(self.user.on_readable)

    def on_reader_called(self) -> None:
        self._is_reader_notified = False

    def take(self) -> bytes:
        """Returns all received bytes; the sender then has room again."""
        data = b"".join(self._received) if len(self._received) != 1 else self._received[0]
        self._received.clear()
        if data:
            # The acknowledgement is never lost; a blocked link only delays it.
            seconds = self.link.latency_seconds()
            if self._slow_reader is not None:
                seconds += self._slow_reader.seconds()
            self.process.scheduler.call_after(seconds, self.peer.on_acknowledged, len(data))
        return data

    @property
    def _eof_is_due(self) -> bool:
        return self._eof_received and not self._eof_taken

    def take_eof(self) -> bool:
        """Whether the stream has ended; returns True only once."""
        if self._received or not self._eof_is_due:
            return False
        self._eof_taken = True
        return True

    def on_acknowledged(self, size: int) -> None:
        # The window of a slow reader may have grown meanwhile.
        was_full = self.room <= 0 or self.peer.has_own_window
        self._outstanding -= size
        if was_full and self.room > 0 and self.user is not None and self._state is _State.OPEN:
            self.process.loop.call_soon(self.user.on_writable)

    # ---- ending

    def close(self) -> None:
        """Closes it: sent bytes still arrive at the peer, received ones are rejected with a reset."""
        if self._state is _State.OPEN:
            self.send_eof()
            self._state = _State.CLOSED
            self.ended_seconds = self.process.scheduler.now
            if not self.peer.is_open:
                self._network.forget(self)
                self._network.forget(self.peer)

    def reset(self) -> None:
        """Aborts the connection and sends a reset."""
        if self._state is _State.OPEN:
            self.refuse_more()
            self._forget(_State.RESET)

    def on_process_end(self, power_lost: bool) -> None:
        if power_lost:
            self._assigned.clear()
            self._forget(_State.CLOSED)
        elif self._state is _State.OPEN:
            # A kernel sends a reset if the program has not read all bytes.
            if self._received:
                self.reset()
            else:
                self.close()

    def _forget(self, state: _State) -> None:
        if self._state is _State.OPEN:
            self.ended_seconds = self.process.scheduler.now
        self._state = state
        self._received.clear()
        self.user = self.user if state is _State.RESET else None
        if state is _State.RESET:
            self._assigned.clear()
            self._network.forget(self)
