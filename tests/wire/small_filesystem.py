"""A tmpfs that is full after a few megabytes and can be enlarged."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import components


def _try_mount() -> bool:
    import tempfile

    with tempfile.TemporaryDirectory() as directory, small_filesystem(Path(directory) / "probe", 1):
        return True


def require_mounts() -> None:
    """Skips the calling test, by name, where mounting is not permitted."""
    components.require("permission to mount a tmpfs", _try_mount)


@contextmanager
def small_filesystem(path: Path, megabytes: int) -> Iterator["SmallFilesystem"]:
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield SmallFilesystem(path)
    finally:
        # Open files stay usable; the path is free at once.
        _run("umount", "--lazy", str(path))


class SmallFilesystem:
    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, megabytes: int) -> None:
        _run("mount", "-o", f"remount,size={megabytes}m", str(self.path))

    def fill(self) -> None:
        """Fills the remaining space, to the last page."""
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError:
                    continue

    def make_room(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)


def _run(*command: str) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as problem:
        raise components.ComponentMissing(f"{command[0]} is not on the PATH") from problem
    if result.returncode != 0:
        raise components.ComponentMissing(result.stderr.strip() or f"{command[0]} failed")
