"""A small Java program around Apache Kafka's own classes, with requests and responses as lines of text."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.class_archive import archive_flags

_SOURCES = Path(__file__).parent / "java"
_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx256M")


def java_command(libs: Path, source: Path) -> list[str]:
    """The command that runs a single-file program from its source."""
    return ["java", *_FLAGS, *archive_flags(libs), "-cp", f"{libs}/*", str(source)]


class JavaProgram:
    """Runs `java/<name>.java` from its source. Each request is one line of text."""

    def __init__(self, libs: Path, name: str) -> None:
        self._process = subprocess.Popen(
            java_command(libs, _SOURCES / f"{name}.java"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def request(self, *words: object, last_line: str | None = None) -> list[str]:
        """Return the response: all lines before `last_line`, or one line if there is no `last_line`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while line := self._process.stdout.readline():
            line = line.rstrip("\n")
            if line == last_line:
                return lines
            lines.append(line)
            if last_line is None:
                return lines
        raise EOFError(f"the program ended after {lines}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
