"""Files renamed to `.deleted`, which are removed after file.delete.delay.ms, when no reader uses them any more."""

import contextlib
from collections import deque
from collections.abc import Iterator

from odradek.base.ports import Disk


class DeletedFiles:
    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Entries are popped and appended one by one, because other threads may add to it meanwhile.
        self._waiting: deque[tuple[int, str]] = deque()

    def add(self, path: str, remove_at_ms: int) -> None:
        self._waiting.append((remove_at_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """The files whose delay has passed; the caller removes them."""
        due: list[str] = []
        for remove_at_ms, path in self._pop_all():
            if remove_at_ms <= now_ms:
                due.append(path)
            else:
                self._waiting.append((remove_at_ms, path))
        return due

    def _pop_all(self) -> Iterator[tuple[int, str]]:
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

    def move_to(self, directory: str) -> None:
        """The directory was renamed."""
        for remove_at_ms, path in self._pop_all():
            self._waiting.append((remove_at_ms, f"{directory}/{path.rpartition('/')[2]}"))
