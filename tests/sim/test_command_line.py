"""`python -m odradek.sim`: runs do not depend on the number of processes, and failures are reported."""

import json

import pytest

from odradek.sim import __main__ as command
from odradek.sim.__main__ import RunBroke, main
from tests.sim.__main__ import FOUND_BY

pytestmark = pytest.mark.tier("test")

BUG = "ack-before-append"


def hashes(output: str) -> dict[str, str]:
    lines = (line.split() for line in output.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def test_run_does_not_depend_on_the_number_of_processes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "3", "--hashes", "--scenario", "elections"]
    assert main([*arguments, "--jobs", "1"]) == 0
    alone = hashes(capsys.readouterr().out)
    assert main([*arguments, "--jobs", "2"]) == 0
    assert hashes(capsys.readouterr().out) == alone
    assert len(alone) == 3


@pytest.mark.tier("proof")
def test_failure_report_names_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    seed, _ = json.loads(FOUND_BY.read_text())[BUG]
    assert main(["--first", str(seed), "--seeds", "1", "--jobs", "2", "--plant", BUG]) == 1
    output = capsys.readouterr().out
    again = next(line for line in output.splitlines() if line.startswith("again:")).removeprefix("again:").split()
    assert f"seed {seed}" in output
    assert "timeline:" in output
    assert main([argument for argument in again[3:] if argument != "--trace"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_simulator_error_names_the_seed(monkeypatch: pytest.MonkeyPatch, jobs: str) -> None:
    def broken(seed: int, *arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    # Worker processes are forked and inherit the patch.
    monkeypatch.setattr(command, "run_seed", broken)
    with pytest.raises(RunBroke, match=r"seed 7 .*ZeroDivisionError[^$]*--seed 7 "):
        main(["--first", "7", "--seeds", "1", "--jobs", jobs])
