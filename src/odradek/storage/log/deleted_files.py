"""Files renamed to `.deleted`, which are removed after file.delete.delay.ms, when no reader uses them any more."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.base.ports import Disk


class _Deleted(NamedTuple):
    remove_at_ms: int
    path: str
    on_remove: Callable[[], None] | None


class DeletedFiles:
    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Entries are popped and appended one by one, because other threads may add to it meanwhile.
        self._waiting: deque[_Deleted] = deque()

    def add(self, path: str, remove_at_ms: int, on_remove: Callable[[], None] | None = None) -> None:
        """`on_remove` is called before the file is removed, in any thread."""
        self._waiting.append(_Deleted(remove_at_ms, path, on_remove))

    def take_due(self, now_ms: int) -> list[str]:
        """The files whose delay has passed; the caller removes them."""
        due: list[str] = []
        for deleted in self._pop_all():
            if deleted.remove_at_ms > now_ms:
                self._waiting.append(deleted)
                continue
            due.append(deleted.path)
            if deleted.on_remove is not None:
                deleted.on_remove()
        return due

    def _pop_all(self) -> Iterator[_Deleted]:
        """Pops every entry that is present now."""
        for _ in range(len(self._waiting)):
            try:
                yield self._waiting.popleft()
            except IndexError:
                return

    def remove_due(self, now_ms: int) -> None:
        for path in self.take_due(now_ms):
            # It may be removed already, or its directory may have been renamed.
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(path)

    def forget_all(self) -> None:
        """They are removed with their directory."""
        for deleted in self._pop_all():
            if deleted.on_remove is not None:
                deleted.on_remove()

    def move_to(self, directory: str) -> None:
        """The directory was renamed."""
        for deleted in self._pop_all():
            self._waiting.append(deleted._replace(path=f"{directory}/{deleted.path.rpartition('/')[2]}"))
