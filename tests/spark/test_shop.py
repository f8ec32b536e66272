"""`make pipeline`: from nothing to a table, totals and a proof, by the commands that users have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.components import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.tier("proof")]


def test_the_shop_example_ends_exact(tmp_path: Path, java: None) -> None:
    temporary, results = tmp_path / "temporary", tmp_path / "results"
    temporary.mkdir()
    command = [sys.executable, "-m", "examples.shop", "--orders", "2000", "--output", str(results)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "orders → orders: done, 2,000 rows, 3 dead letters" in said
    assert "Exact: every record has one row." in said, "what the audit says"
    assert "exact: every order once, in the table and in the totals" in done.stdout
    assert (results / "shop.png").read_bytes().startswith(b"\x89PNG")
    assert not list(temporary.iterdir())

    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 2
    assert "is not empty: move it away, or choose another --output" in again.stderr
