"""One at a time, and who it is."""

import os
from pathlib import Path

import pytest

from odradek.pipelines.jobs.lock import held, holder
from odradek.text.errors import UserError


def test_one_holds_it_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert holder(file) is None
    with held(file, "taken"):
        assert holder(file) == os.getpid()
        with pytest.raises(UserError, match="taken"), held(file, "taken"):
            pass
        assert holder(file) == os.getpid()
    assert holder(file) is None
    with held(file, "taken"):
        pass
