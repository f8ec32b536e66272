"""A separate filesystem for one node, which can be filled and freed at any time. Needs root."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.components import ComponentMissing, find_program

_SIZE_MAX: Final = "4g"
"""A limit: the tmpfs uses only as much memory as is written to it."""
_ATTEMPTS: Final = 50


class SmallDisk:
    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory

    def mount(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE_MAX}", "odradek-chaos", str(self.directory))

    def unmount(self) -> None:
        if os.path.ismount(self.directory):
            _run("umount", "--lazy", str(self.directory))

    def fill(self) -> None:
        """Shrinks the filesystem to its used size; retries if it grew in the meantime, which makes the remount fail."""
        for attempt in range(1, _ATTEMPTS + 1):
            usage = os.statvfs(self.directory)
            try:
                self._resize(str((usage.f_blocks - usage.f_bfree) * usage.f_frsize))
                return
            except MountFailed:
                if attempt == _ATTEMPTS:
                    raise

    def free(self) -> None:
        self._resize(_SIZE_MAX)

    def _resize(self, size: str) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.directory))


def find_small_disks(directory: Path) -> None:
    """Raises ComponentMissing where filesystems cannot be mounted."""
    find_program("mount")
    trial = SmallDisk(directory / "trial")
    try:
        trial.mount()
    except MountFailed as error:
        raise ComponentMissing(f"{error}; it needs root") from error
    finally:
        trial.unmount()
        trial.directory.rmdir()


class MountFailed(Exception):
    pass


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if result.returncode != 0:
        raise MountFailed(f"{' '.join(command)}: {result.stderr.strip()}")
