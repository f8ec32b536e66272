"""Makes `terminal.svg`, the picture of a first session in the README, from a real one.

.venv/bin/python docs/pictures/terminal.py
"""

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 104
HERE = Path(__file__).parent
ODRADEK = str(Path(sys.executable).with_name("odradek"))


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    port = _free_port()
    with tempfile.TemporaryDirectory() as directory:
        up = subprocess.Popen(
            [ODRADEK, "up", "--port", str(port), "--data-dir", directory],
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        try:
            assert up.stdout is not None
            ready = up.stdout.readline()
            _show(console, "odradek up", ready.replace(str(port), "9092"))
            for command, stdin in (
                ("topic create orders --partitions 3", ""),
                ("produce orders --key-separator :", "anna:espresso\ncarla:green tea\ndora:croissant\n"),
                ("consume orders -n 3", ""),
                ("topic describe orders", ""),
            ):
                shown = f"odradek {command}"
                if stdin:
                    shown = "printf 'anna:espresso\\ncarla:green tea\\ndora:croissant\\n' | " + shown
                _show(console, shown, _run(command, stdin, port))
        finally:
            up.terminate()
            up.wait(10)
    svg = console.export_svg(title="a broker in one command")
    # Fonts are the reader's own: nothing is fetched when the picture is shown.
    (HERE / "terminal.svg").write_text(re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL))


def _show(console: Console, command: str, output: str) -> None:
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    for line in output.rstrip("\n").split("\n"):
        console.print(Text.from_ansi(line) if line.strip() else "", no_wrap=True, crop=False)
    console.print()


def _run(command: str, stdin: str, port: int) -> str:
    finished = subprocess.run(
        [ODRADEK, *shlex.split(command), "--bootstrap", f"127.0.0.1:{port}"],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
        timeout=30,
    )
    return (finished.stdout + finished.stderr).replace(str(port), "9092")


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
