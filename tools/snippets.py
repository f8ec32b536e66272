"""Runs the fenced blocks of a Markdown page as a reader would: in order, in an empty directory, on free ports.

    python -m tools.snippets README.md
    python -m tools.snippets README.md --python /path/to/python --section "First five minutes"

`sh` blocks run in bash and share exported variables; the `python` blocks of a page share one interpreter. Every block
of these two languages runs; HTML comments before a block, invisible to readers, say how it differs:

    <!-- snippet background: ready -->     leave it running; continue when its output contains "ready"
    <!-- snippet instead: COMMAND -->      run this instead (add `because:`)
    <!-- snippet skip: REASON -->          do not run it
    <!-- snippet file: NAME -->            write the block to this file instead of running it (any language)
    <!-- snippet output -->                the block shows the output of the block before it; `…` matches any text

A comment may hold several of these on lines of their own. Two stand alone: `setup: COMMAND` runs a command that readers
do not see (with `background:` too), and `stop` sends Ctrl-C to the commands in the background.

Pages use Kafka's usual ports. The runner replaces them by free ones, in commands and, backwards, in output.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
LANGUAGES: Final = ("sh", "python")
TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 30.0

_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^`]*$")
_COMMENT: Final = re.compile(r"<!--\s*snippet\b(.*?)-->", re.DOTALL)
_HEADING: Final = re.compile(r"^#+ +(.*)$")


class SnippetFailed(Exception):
    """A block did not do what its page says."""


class Block(NamedTuple):
    line: int
    section: str
    language: str
    text: str
    """Empty for a comment that stands alone."""
    directives: Mapping[str, str]

    @property
    def runs(self) -> bool:
        return self.language in LANGUAGES and not self.directives.keys() & {"skip", "file", "output"}


def parse(page: str) -> list[Block]:
    """The blocks of a page and the comments that stand alone, in order."""
    lines = _COMMENT.sub(_on_one_line, page).split("\n")
    return list(_blocks(lines))


def run_page(page: Path, python: Path, *, section: str | None = None) -> None:
    """Raises SnippetFailed with the block's line, command and output."""
    blocks = [block for block in parse(page.read_text()) if section is None or block.section == section]
    if not any(block.runs for block in blocks):
        raise SnippetFailed(f"{page}: nothing to run{f' in section {section!r}' if section else ''}")
    with (
        tempfile.TemporaryDirectory(prefix="odradek-snippets-") as directory,
        _Reader(Path(directory), python) as reader,
    ):
        for block in blocks:
            try:
                reader.read(block)
            except SnippetFailed as error:
                shown = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
                raise SnippetFailed(f"{shown}:{block.line}: {error}\n--- the block ---\n{block.text}") from None


class _Reader:
    """Does what a page says, in one directory and one environment."""

    def __init__(self, directory: Path, python: Path) -> None:
        self._directory: Final = directory
        self._ports: Final = _Ports()
        self._environment: Final = _environment(python, self._ports)
        self._variables: Final = directory / ".environment"
        self._python: Final = python
        self._session: _PythonSession | None = None
        self._background: list[_Background] = []
        self._output = ""
        # `. .venv/bin/activate` works as in a checkout.
        (directory / ".venv").symlink_to(python.parent.parent, target_is_directory=True)

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()
        self._stop()

    def read(self, block: Block) -> None:
        directives = block.directives
        if "setup" in directives:
            self._set_up(self._ports.replace(directives["setup"]), directives.get("background"))
        if "stop" in directives:
            self._stop()
        text = self._ports.replace(directives.get("instead", block.text))
        if "file" in directives:
            path = self._directory / directives["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif "output" in directives:
            check_output(block.text, self._output)
        elif block.runs and "background" in directives:
            self._start(text, directives["background"])
        elif block.runs and block.language == "sh":
            self._run_shell(text)
        elif block.runs:
            self._run_python(text)

    def _set_up(self, command: str, ready: str | None) -> None:
        if ready is None:
            self._run_shell(command)
        else:
            self._start(command, ready)

    def _run_shell(self, command: str) -> None:
        finished = subprocess.run(
            _bash(f"trap 'env -0 > {self._variables}' EXIT\n{command}"),
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self._output = self._ports.restore(finished.stdout)
        if self._variables.exists():
            pairs = (line.partition("=") for line in self._variables.read_text().split("\0") if line)
            self._environment.update((name, value) for name, _, value in pairs)
        if finished.returncode:
            raise SnippetFailed(f"exit code {finished.returncode}\n--- its output ---\n{self._output}")

    def _run_python(self, source: str) -> None:
        if self._session is None:
            self._session = _PythonSession(self._python, self._directory, self._environment)
        self._output = self._ports.restore(self._session.run(source))

    def _start(self, command: str, ready: str) -> None:
        background = _Background(command, self._directory, self._environment)
        self._background.append(background)
        self._output = self._ports.restore(background.wait_for_text(ready))

    def _stop(self) -> None:
        while self._background:
            self._background.pop().stop()


class _Background:
    def __init__(self, command: str, directory: Path, environment: Mapping[str, str]) -> None:
        self._log: Final = tempfile.NamedTemporaryFile("rb", prefix="odradek-snippet-log-")  # noqa: SIM115
        self._process: Final = subprocess.Popen(
            _bash(command),
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=open(self._log.name, "wb"),  # noqa: SIM115
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for_text(self, text: str) -> str:
        """Returns the output so far."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in (output := Path(self._log.name).read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise SnippetFailed(f"its output does not contain {text!r}\n--- its output ---\n{output}")
            time.sleep(0.05)
        return output

    def stop(self) -> None:
        """Ctrl-C, as a terminal sends it; SIGKILL if that is not enough."""
        for sent in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, sent)
                try:
                    self._process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    continue
        self._log.close()


class _PythonSession:
    """One interpreter for all Python blocks of a page."""

    _PROGRAM: Final = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<snippet>", "exec"), names)
        outcome = "done"
    except BaseException:
        traceback.print_exc()
        outcome = "failed"
    sys.stdout.flush()
    sys.stderr.flush()
    print(f"\\x00{outcome}", flush=True)
"""

    def __init__(self, python: Path, directory: Path, environment: Mapping[str, str]) -> None:
        self._process: Final = subprocess.Popen(
            [python, "-c", self._PROGRAM],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, source: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(source) + "\n")
        self._process.stdin.flush()
        output = ""
        for line in self._process.stdout:
            printed, mark, outcome = line.partition("\x00")
            output += printed
            if mark:
                if outcome.strip() != "done":
                    break
                return output
        raise SnippetFailed(f"Python failed\n--- its output ---\n{output}")

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Ports:
    """Free ports in place of Kafka's usual ones; `odradek up` receives them as options."""

    _BROKERS: Final = range(9092, 9102)
    _CONSOLE: Final = 8080
    _OFFSETS: Final = (0, 1000, 2000)
    """Of a broker's listener, its controller listener and its HTTP endpoint."""
    _UP: Final = re.compile(r"^(\s*)((?:\S*/)?odradek up)\b(?!.*--port)", re.MULTILINE)

    def __init__(self) -> None:
        first = _free_range(len(self._BROKERS), self._OFFSETS)
        console = _free_range(1, (0,))
        numbers = {
            port + above: first + number + above for number, port in enumerate(self._BROKERS) for above in self._OFFSETS
        }
        numbers[self._CONSOLE] = console
        self._numbers: Final = {str(usual): str(free) for usual, free in numbers.items()}
        self.first_broker: Final = first
        self._options: Final = f" --port {first} --console-port {console}"

    def replace(self, text: str) -> str:
        return self._UP.sub(rf"\1\2{self._options}", _substitute(text, self._numbers))

    def restore(self, text: str) -> str:
        return _substitute(text, {free: usual for usual, free in self._numbers.items()})


def check_output(expected: str, actual: str) -> None:
    """Every expected line must be in the output, in order; `…` matches any text, and so does space between columns."""
    lines = iter(actual.splitlines())
    for wanted in filter(None, map(str.strip, expected.splitlines())):
        pattern = re.compile(_pattern(wanted))
        if not any(pattern.search(" ".join(line.split())) for line in lines):
            raise SnippetFailed(f"its output does not show {wanted!r}\n--- its output ---\n{actual}")


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))


def _on_one_line(comment: re.Match[str]) -> str:
    """Keeps the number of lines, so that a block's line number stays right."""
    return f"<!-- snippet {json.dumps(comment[1])} -->" + "\n" * comment[0].count("\n")


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    section, directives = "", {}
    numbered = iter(enumerate(lines, 1))
    for number, line in numbered:
        if comment := re.fullmatch(r"\s*<!-- snippet (.*) -->", line):
            directives = _directives(json.loads(comment[1]))
            if directives.keys() & {"setup", "stop"}:
                yield Block(number, section, "", "", directives)
                directives = {}
        elif fence := _FENCE.match(line):
            text = _body(numbered, fence["indent"])
            yield Block(number, section, fence["language"], text, directives)
            directives = {}
        elif heading := _HEADING.match(line):
            section = heading[1]


def _body(numbered: Iterator[tuple[int, str]], indent: str) -> str:
    body = []
    for _, line in numbered:
        if line.strip() == "```":
            break
        body.append(line.removeprefix(indent))
    return "\n".join(body) + "\n"


def _directives(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.strip().split("\n"))
    found = {key.strip(): value.strip() for key, _, value in pairs}
    unknown = found.keys() - {"background", "instead", "because", "skip", "file", "output", "setup", "stop"}
    if unknown or ("skip" in found and not found["skip"]) or ("instead" in found and "because" not in found):
        raise ValueError(f"unknown or incomplete snippet comment: {text!r}")
    return found


def _bash(command: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", command]


def _environment(python: Path, ports: _Ports) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV_CORE", "PYTEST_"))}
    return {
        **kept,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
        "ODRADEK_BOOTSTRAP": f"127.0.0.1:{ports.first_broker}",
        "COLUMNS": "120",
        "PYTHONUNBUFFERED": "1",
    }


def _substitute(text: str, numbers: Mapping[str, str]) -> str:
    return re.sub(rf"(?<!\d)({'|'.join(numbers)})(?!\d)", lambda match: numbers[match[1]], text)


def _free_range(size: int, offsets: Sequence[int]) -> int:
    """The first of `size` adjacent ports that are free, and so are those at the offsets above them."""
    for _ in range(1000):
        first = SystemRandom().randrange(20_000, 30_000)
        if all(_is_free(first + number + above) for number in range(size) for above in offsets):
            return first
    raise SnippetFailed("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="interpreter of the environment to test"
    )
    parser.add_argument("--section", help="run only the blocks below this heading")
    options = parser.parse_args()
    for page in options.pages:
        try:
            run_page(page.resolve(), options.python.absolute(), section=options.section)
        except SnippetFailed as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{shlex.quote(str(page))}: every snippet works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
