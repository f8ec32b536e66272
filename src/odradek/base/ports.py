"""What the core may ask of the outside world. Real machines stand behind these in `host/`, virtual ones in `sim/`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from typing_extensions import Buffer

T = TypeVar("T")


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970: for timestamps that people and files see. May jump."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start: for deadlines. Never goes back."""


class Random(Protocol):
    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...


class Executor(Protocol):
    """The only way to a thread. Jobs of one `lane` (a log dir's, for one) never overlap; None: any worker."""

    async def run(self, work: Callable[[], T], *, lane: str | None = None) -> T: ...


class DiskFile(Protocol):
    """An open file. Writes go to the page cache; only `sync` makes them survive a power loss."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes all bytes at the end, or raises OSError after cutting the file back to its old size."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file. May wait for the disk."""

    def read_cached(self, position: int, size: int) -> bytes | None:
        """As `read`, but None when that would have to wait for the disk."""

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
    """A tree of files. Every method may block and may raise OSError."""

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
        """With those above it. Durable once it returns, unless the caller syncs the directory above by itself."""

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Durable once it returns, the directories of both names being synced, unless the caller can do without."""

    def link(self, source: str, target: str) -> None:
        """Another name for a file of the same disk, which stays when the first one goes. Not durable."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def usage(self, path: str) -> DiskUsage: ...

    def lock(self, path: str) -> DiskLock:
        """An exclusive lock that ends with the process. Raises BlockingIOError while somebody else holds it."""


class ControllerPort(Protocol):
    """The active controller, wherever it runs."""

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        """Takes and gives kio messages of exactly this API and version. Returns once the decision is committed and
        applied to the image that this node serves from. Raises KafkaError only where a response cannot say it."""


class Client(NamedTuple):
    """Who asked for something."""

    client_id: str | None
    host: str
    """Its address, as text."""


class ForwardingPort(ControllerPort, Protocol):
    """The active controller as a broker has it, for itself and for its clients."""

    async def forward(self, client: Client, api_key: int, version: int, request: Any) -> Any:
        """As `handle`; the controller is told for whom."""
