"""One at a time, and who it is."""

import os
from pathlib import Path

import pytest

from odradek.pipelines.jobs.lock import find_holder, hold_lock
from odradek.text.errors import UserError


def test_a_lock_has_one_holder_with_its_pid(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert find_holder(file) is None
    with hold_lock(file, "taken"):
        assert find_holder(file) == os.getpid()
        with pytest.raises(UserError, match="taken"), hold_lock(file, "taken"):
            pass
        assert find_holder(file) == os.getpid()
    assert find_holder(file) is None
    with hold_lock(file, "taken"):
        pass
