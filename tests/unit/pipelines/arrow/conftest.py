"""Log directories made of given batches, and what is read from them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import odradek

TOPIC = "orders"


class LogDirectory:
    """The directory of a node that does not run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def segment(self, batches: Iterable[bytes], *, base_offset: int = 0, partition: int = 0) -> Path:
        directory = self.path / f"{TOPIC}-{partition}"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{base_offset:020d}.log"
        file.write_bytes(b"".join(batches))
        return file

    def reader(self, **options: Any) -> Any:
        return odradek.read_topic(TOPIC, directory=self.path, **options)

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.reader(**options).read_all().to_pylist()
        return found

    def column(self, name: str, **options: Any) -> list[Any]:
        return [row[name] for row in self.rows(columns=[name], **options)]


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs")


@pytest.fixture
def make_logs(tmp_path: Path) -> Callable[[str], LogDirectory]:
    return lambda name: LogDirectory(tmp_path / name)
