"""A disk that fails on demand."""

import errno
from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

from odradek.host.disk import HostDisk, HostFile


class FaultyFile:
    def __init__(self, disk: "FaultyDisk", file: HostFile) -> None:
        self._disk = disk
        self._file = file

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.step("append", self._file.path)
        return self._file.append(buffers)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.step("write_at", self._file.path)
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self._file.path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.step("sync", self._file.path)
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class FaultyDisk(HostDisk):
    """Every change is a step; step `fail_at`, counted from the last `arm`, raises, and so do all of `fail_kinds`."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, str]] = []
        self.fail_at = -1
        self.fail_kinds: set[str] = set()
        self.error = errno.ENOSPC

    def arm(self, fail_at: int) -> None:
        self.steps = []
        self.fail_at = fail_at

    def step(self, kind: str, path: str) -> None:
        self.steps.append((kind, path.rpartition("/")[2]))
        if len(self.steps) - 1 == self.fail_at or kind in self.fail_kinds:
            raise OSError(self.error, "as ordered", path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> FaultyFile:  # type: ignore[override]
        if create and not self.exists(path):
            self.step("create", path)
        return FaultyFile(self, super().open(path, create=create, read_only=read_only))

    def write_atomically(self, path: str, data: bytes) -> None:
        self.step("write_atomically", path)
        super().write_atomically(path, data)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self.step("rename", source)
        super().rename(source, target, durable=durable)

    def remove(self, path: str) -> None:
        self.step("remove", path)
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self.step("sync_dir", path)
        super().sync_dir(path)
