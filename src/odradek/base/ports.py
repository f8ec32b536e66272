"""The ports of the core to the outside world. `host/` implements them on a real machine, `sim/` in the simulator."""

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from typing_extensions import Buffer

from odradek.base.principal import ANONYMOUS, Principal

T = TypeVar("T")


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, for timestamps. May jump."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, for deadlines. Never decreases."""


class Random(Protocol):
    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...


class Pool(Enum):
    """A kind of work with threads of its own: it never waits for work of another kind."""

    BACKGROUND = "background"
    """Files created, deleted, moved and checkpointed."""
    READ = "read"
    """Reads that miss the page cache."""
    SYNC = "sync"
    VALIDATION = "validation"
    """Record batches walked before they are appended."""
    CODEC = "codec"
    """Large messages decoded and encoded."""
    LOADING = "loading"
    """Logs replayed into coordinators."""
    COMPACTION = "compaction"
    CONTROLLER = "controller"
    """Activation of the controller."""
    HANDSHAKE = "handshake"
    """TLS handshakes, and key material read from files."""


class Executor(Protocol):
    """Runs work in the threads of a pool, or in the one thread of a lane, for example of a log dir: its jobs never
    overlap."""

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        """A lane has priority over the pool."""


class Threads(Executor, Protocol):
    """All threads of a node."""

    def for_directory(self, path: str) -> Executor:
        """Threads of its own for a log dir, always the same ones for the same path."""

    def abandon(self, path: str) -> None:
        """The threads for this log dir hang: no thread waits for them any more."""


class Message(NamedTuple):
    """What a worker receives and sends: numbers and text, as JSON has them, and bytes. Never objects."""

    fields: Mapping[str, Any]
    data: bytes = b""


class WorkerTask(Protocol):
    async def next(self) -> Message | None:
        """The next message of the task, which works only while it is awaited; None at the end.

        Raises the task's KafkaError or OSError, or WorkerFailed.
        """

    def close(self) -> None:
        """Ends the task. It cleans up, unless it works at this moment."""


class Workers(Protocol):
    """Runs long computations in processes of their own: in a thread they would compete with the event loop for the
    interpreter."""

    def start(self, pool: Pool, request: Message, *, input_bytes: int) -> WorkerTask:
        """A task of the pool's program. A small input is not worth a process."""


class DiskFile(Protocol):
    """An open file. Writes go to the page cache; they survive a power loss only after `sync`."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes all bytes at the end, or truncates the file to its old size and raises OSError."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file. May block."""

    def read_cached(self, position: int, size: int) -> bytes | None:
        """As `read`, but None if that would block."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fills the buffer and returns the number of bytes, fewer only at the end of the file. May block."""

    def read_cached_into(self, position: int, buffer: memoryview) -> int:
        """As `read_into`, but only up to the first byte that would block: 0 if that is the first one."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class DiskUsage(NamedTuple):
    total_bytes: int
    usable_bytes: int


class DiskLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A tree of files. Every method may block and may raise OSError, except `thread_waits`."""

    def thread_waits(self) -> int:
        """How many times this thread has waited, for a disk or for anything but a processor: if an operation takes
        long and this does not grow, the disk is not the cause."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Writes a temporary file, syncs it, renames it over `path` and syncs the directory."""

    def list_dir(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        """Creates the parents too. Durable on return, unless the caller syncs the parent directory itself."""

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Syncs the directories of both names, unless `durable` is false."""

    def link(self, source: str, target: str) -> None:
        """Creates a hard link. Not durable."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def usage(self, path: str) -> DiskUsage: ...

    def lock(self, path: str) -> DiskLock:
        """An exclusive lock that ends with the process. Raises BlockingIOError if it is held elsewhere."""


Program = Callable[[Disk, Message], Generator[Message, None, None]]
"""What a worker runs: it blocks, and yields the messages of a task."""


class ControllerPort(Protocol):
    """The active controller, wherever it runs."""

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        """Takes and returns kio messages of exactly this API and version. Returns once the result is committed and
        applied to this node's image. Raises KafkaError only if the response has no field for the error."""


class Client(NamedTuple):
    """The client that sent a request."""

    client_id: str | None
    host: str
    """Its IP address."""
    principal: Principal = ANONYMOUS


class ForwardingPort(ControllerPort, Protocol):
    """The active controller, for a broker's own requests and those of its clients."""

    async def forward(self, client: Client, api_key: int, version: int, request: Any) -> Any:
        """As `handle`, on behalf of a client."""
