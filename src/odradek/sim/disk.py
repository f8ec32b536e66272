"""A computer's disk: the contents of the page cache, and what would remain of them after a power loss.

Syncing a file makes its bytes durable, syncing a directory its entries. A process that dies leaves the
page cache as it is. The only fault it knows is the loss of power; see `disk_port` for those that a process meets.
"""

import errno
import os
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple, Protocol

SECTOR_BYTES: Final = 512
_ZERO: Final = b"\0"


class _Write(NamedTuple):
    position: int
    data: bytes


class _Resize(NamedTuple):
    size: int


class FileObserver(Protocol):
    """Sees every change of a file's contents in the page cache."""

    def on_write(self, position: int) -> None:
        """Bytes were written there; they may have overwritten others."""

    def on_resize(self, size: int) -> None: ...

    def on_reload(self) -> None:
        """Power was lost, or a bit flipped: any byte may have changed."""

    def on_removal(self) -> None:
        """Its last name was removed."""


class _Bytes:
    """A file's bytes; what was never written reads as zeros and takes no room."""

    __slots__ = ("data", "rewrites", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0
        self.rewrites = 0
        """The number of changes to existing bytes: while it stays, bytes were only appended."""

    def apply(self, change: _Write | _Resize) -> None:
        if isinstance(change, _Write):
            position, data = change
            missing = position - len(self.data)
            if missing > 0:
                self.data += _ZERO * missing
            if position < self.size:
                self.rewrites += 1
            self.data[position : position + len(data)] = data
            self.size = max(self.size, position + len(data))
        else:
            if change.size < self.size:
                self.rewrites += 1
            self.size = change.size
            del self.data[change.size :]

    def read(self, position: int, size: int) -> bytes:
        size = max(0, min(size, self.size - position))
        found = bytes(self.data[position : position + size])
        return found if len(found) == size else found + _ZERO * (size - len(found))

    def copy_from(self, other: "_Bytes") -> None:
        self.data = bytearray(other.data)
        self.size = other.size
        self.rewrites += 1


class FileNode:
    """A file, which may have several names."""

    def __init__(self) -> None:
        self.cached: Final = _Bytes()
        self.durable: Final = _Bytes()
        self.unsynced: list[_Write | _Resize] = []
        self.modified_ms = 0
        self.name_count = 1
        self.observer: FileObserver | None = None

    def change(self, change: _Write | _Resize, now_ms: int) -> None:
        self.cached.apply(change)
        self.unsynced.append(change)
        self.modified_ms = now_ms
        if self.observer is not None:
            if isinstance(change, _Write):
                self.observer.on_write(change.position)
            else:
                self.observer.on_resize(change.size)

    def remove_name(self) -> None:
        self.name_count -= 1
        if not self.name_count and self.observer is not None:
            self.observer.on_removal()

    def write(self, position: int, data: bytes, now_ms: int) -> None:
        self.change(_Write(position, data), now_ms)

    def resize(self, size: int, now_ms: int) -> None:
        self.change(_Resize(size), now_ms)

    def sync(self) -> None:
        for change in self.unsynced:
            self.durable.apply(change)
        self.unsynced.clear()

    def fail_to_sync(self) -> None:
        """As the kernel does after an error: the bytes stay readable but are never written again."""
        self.unsynced.clear()

    def lose_power(self, random: Random) -> None:
        if self.unsynced:
            for change in _choose_surviving(self.unsynced, random):
                self.durable.apply(change)
            self.unsynced.clear()
        self.cached.copy_from(self.durable)
        if self.observer is not None:
            self.observer.on_reload()

    def flip_bit(self, position: int, bit: int) -> None:
        for content in (self.cached, self.durable):
            if position < len(content.data):
                content.data[position] ^= 1 << bit
                content.rewrites += 1
        if self.observer is not None:
            self.observer.on_reload()


class Survival(Enum):
    """What is left of a file's unsynced writes."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    # The first writes, and of the next one the first sectors.
    TORN = "torn"
    # Sectors that happened to be written back, zeros between them.
    SCATTERED = "scattered"


_SURVIVAL_WEIGHTS: Final = {
    Survival.NOTHING: 3,
    Survival.EVERYTHING: 2,
    Survival.TORN: 3,
    Survival.SCATTERED: 3,
}


def _choose_surviving(changes: list[_Write | _Resize], random: Random) -> list[_Write | _Resize]:
    (kind,) = random.choices(list(_SURVIVAL_WEIGHTS), list(_SURVIVAL_WEIGHTS.values()))
    if kind is Survival.NOTHING:
        return []
    if kind is Survival.EVERYTHING:
        return changes
    if kind is Survival.SCATTERED:
        share = random.choice((0.5, 0.8, 0.95))
        return [part for change in changes for part in _sectors(change) if random.random() < share]
    count = random.randrange(len(changes))
    parts = list(_sectors(changes[count]))
    return [*changes[:count], *parts[: random.randrange(len(parts) + 1)]]


def _sectors(change: _Write | _Resize) -> Iterator[_Write | _Resize]:
    if isinstance(change, _Resize):
        yield change
        return
    position, data = change
    while data:
        size = SECTOR_BYTES - position % SECTOR_BYTES
        yield _Write(position, data[:size])
        position, data = position + size, data[size:]


class DirectoryNode:
    def __init__(self) -> None:
        self.cached: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        # Name -> the file that it refers to from then on; None: removed.
        self.unsynced: list[tuple[tuple[str, Node | None], ...]] = []
        """Atomic steps, such as a rename within a directory."""
        self.changes = 0
        """While it stays, the cached and the durable names are unchanged."""

    def change(self, *step: "tuple[str, Node | None]") -> None:
        self.changes += 1
        _set_names(self.cached, step)
        self.unsynced.append(step)

    def sync(self) -> None:
        self.changes += 1
        for step in self.unsynced:
            _set_names(self.durable, step)
        self.unsynced.clear()

    def lose_power(self, random: Random) -> None:
        self.changes += 1
        for step in self.unsynced[: random.randrange(len(self.unsynced) + 1)]:
            _set_names(self.durable, step)
        self.unsynced.clear()
        self.cached = dict(self.durable)


Node = FileNode | DirectoryNode


def _set_names(entries: dict[str, Node], step: tuple[tuple[str, Node | None], ...]) -> None:
    for name, node in step:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class VirtualDisk:
    """A tree of files. All paths are absolute."""

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        self._random: Final = random
        self.now_ms: Final = now_ms
        self._root: Final = DirectoryNode()
        self.locks: Final[dict[str, object]] = {}
        # Called with every write to a file.
        self.write_watcher: Callable[[str, bytes], None] | None = None
        # Called with every new file.
        self.create_watcher: Callable[[str, FileNode], None] | None = None

    # ---- finding

    def find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.cached.get(name)
        return node

    def directory(self, path: str) -> DirectoryNode:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, DirectoryNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def file(self, path: str) -> FileNode:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def parent(self, path: str) -> tuple[DirectoryNode, str]:
        head, _, name = path.rpartition("/")
        return self.directory(head), name

    def files(self, path: str = "/") -> Iterator[tuple[str, FileNode]]:
        """Every file below a directory, with its path, by name."""
        for name, node in sorted(self.directory(path).cached.items()):
            below = f"{path.rstrip('/')}/{name}"
            if isinstance(node, FileNode):
                yield below, node
            else:
                yield from self.files(below)

    def copy_from(self, other: "VirtualDisk") -> None:
        """Becomes a copy of the other disk's page cache. All of it is durable."""
        copy = _copy(other._root)
        self._root.cached, self._root.durable = copy.cached, copy.durable
        self._root.unsynced.clear()
        self._root.changes += 1
        self.locks.clear()

    # ---- durable contents

    def durable_names(self, path: str) -> list[str]:
        directory = self.find_durable(path)
        return sorted(directory.durable) if isinstance(directory, DirectoryNode) else []

    def durable_file(self, path: str) -> FileNode | None:
        file = self.find_durable(path)
        return file if isinstance(file, FileNode) else None

    def durable_bytes(self, path: str) -> bytes | None:
        file = self.durable_file(path)
        return None if file is None else file.durable.read(0, file.durable.size)

    def find_durable(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.durable.get(name)
        return node

    # ---- changing

    def create(self, path: str) -> FileNode:
        parent, name = self.parent(path)
        node = FileNode()
        node.modified_ms = self.now_ms()
        parent.change((name, node))
        if self.create_watcher is not None:
            self.create_watcher(path, node)
        return node

    def make_dir(self, path: str) -> None:
        parent, name = self.parent(path)
        if name in parent.cached:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        parent.change((name, DirectoryNode()))

    def rename(self, source: str, target: str) -> None:
        old_parent, old_name = self.parent(source)
        new_parent, new_name = self.parent(target)
        node = old_parent.cached.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        existing = new_parent.cached.get(new_name)
        if isinstance(existing, DirectoryNode) and existing.cached:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        if isinstance(existing, FileNode) and existing is not node:
            existing.remove_name()
        if old_parent is new_parent:
            new_parent.change((old_name, None), (new_name, node))
        else:
            # In this order the file cannot get lost. The node renames no file into another directory.
            new_parent.change((new_name, node))
            old_parent.change((old_name, None))

    def link(self, source: str, target: str) -> None:
        parent, name = self.parent(target)
        if name in parent.cached:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        node = self.file(source)
        parent.change((name, node))
        node.name_count += 1

    def remove(self, path: str) -> None:
        parent, name = self.parent(path)
        node = self.file(path)
        parent.change((name, None))
        node.remove_name()

    def remove_tree(self, path: str) -> None:
        parent, name = self.parent(path)
        self.directory(path)
        parent.change((name, None))

    def lose_power(self) -> None:
        """Every file and directory keeps its durable contents, and a random part of the rest."""
        self.locks.clear()
        self._lose_power(self._root)

    def _lose_power(self, directory: DirectoryNode) -> None:
        directory.lose_power(self._random)
        for _, node in sorted(directory.cached.items()):
            if isinstance(node, FileNode):
                node.lose_power(self._random)
            else:
                self._lose_power(node)


def _copy(directory: DirectoryNode) -> DirectoryNode:
    copy = DirectoryNode()
    for name, node in directory.cached.items():
        copy.cached[name] = _copy(node) if isinstance(node, DirectoryNode) else _copy_file(node)
    copy.durable = dict(copy.cached)
    return copy


def _copy_file(file: FileNode) -> FileNode:
    copy = FileNode()
    copy.cached.copy_from(file.cached)
    copy.durable.copy_from(file.cached)
    copy.modified_ms = file.modified_ms
    return copy


@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
