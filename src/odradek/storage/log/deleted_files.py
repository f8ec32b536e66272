"""Files that are no longer part of anything, and go once nobody can be reading them any more."""

import contextlib
from collections import deque
from collections.abc import Iterator

from odradek.base.ports import Disk


class DeletedFiles:
    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Taken one by one, and put back: others may add to it meanwhile, in a thread of theirs.
        self._waiting: deque[tuple[int, str]] = deque()

    def add(self, path: str, remove_at_ms: int) -> None:
        self._waiting.append((remove_at_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Those whose time has come; they are the caller's to remove."""
        due: list[str] = []
        for remove_at_ms, path in self._taken():
            if remove_at_ms <= now_ms:
                due.append(path)
            else:
                self._waiting.append((remove_at_ms, path))
        return due

    def _taken(self) -> Iterator[tuple[int, str]]:
        """Each that waits now."""
        for _ in range(len(self._waiting)):
            try:
                yield self._waiting.popleft()
            except IndexError:
                return

    def remove_due(self, now_ms: int) -> None:
        for path in self.take_due(now_ms):
            # It may be gone already, or its directory have got another name just now.
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(path)

    def move_to(self, directory: str) -> None:
        """Their directory got another name."""
        for remove_at_ms, path in self._taken():
            self._waiting.append((remove_at_ms, f"{directory}/{path.rpartition('/')[2]}"))
