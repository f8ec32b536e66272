"""Files that are no longer part of anything, and go once nobody can be reading them any more."""

from odradek.base.ports import Disk


class DoomedFiles:
    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting: list[tuple[int, str]] = []

    def add(self, path: str, remove_at_ms: int) -> None:
        self._waiting.append((remove_at_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Those whose time has come; they are the caller's to remove."""
        due = [path for remove_at_ms, path in self._waiting if remove_at_ms <= now_ms]
        if due:
            self._waiting = [one for one in self._waiting if one[0] > now_ms]
        return due

    def remove_due(self, now_ms: int) -> None:
        for path in self.take_due(now_ms):
            if self._disk.exists(path):
                self._disk.remove(path)

    def move_to(self, directory: str) -> None:
        """Their directory got another name."""
        self._waiting = [(at_ms, f"{directory}/{path.rpartition('/')[2]}") for at_ms, path in self._waiting]
