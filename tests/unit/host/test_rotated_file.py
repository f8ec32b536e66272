"""A log file that is renamed when it is full."""

import os
import stat
from pathlib import Path

import pytest

from odradek.host.rotated_file import RotatedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def new_file(path: Path, *, bytes_max: int = 20, files_max: int = 3) -> RotatedFile:
    return RotatedFile(str(path), bytes_max=bytes_max, files_max=files_max)


def contents(path: Path) -> dict[str, bytes]:
    return {one.name.removeprefix("audit.log"): one.read_bytes() for one in path.parent.glob("audit.log*")}


def test_files_are_renamed_and_the_oldest_is_deleted(path: Path) -> None:
    file = new_file(path)
    for number in range(8):
        file.append(b"line %d...\n" % number)
    assert contents(path) == {
        "": b"line 6...\nline 7...\n",
        ".1": b"line 4...\nline 5...\n",
        ".2": b"line 2...\nline 3...\n",
    }


def test_a_restart_continues_the_file_and_its_size(path: Path) -> None:
    for number in range(3):
        file = new_file(path)
        file.append(b"line %d...\n" % number)
        file.close()
    assert contents(path) == {"": b"line 2...\n", ".1": b"line 0...\nline 1...\n"}


def test_a_single_file_is_replaced(path: Path) -> None:
    file = new_file(path, files_max=1)
    for number in range(3):
        file.append(b"line %d...\n" % number)
    assert contents(path) == {"": b"line 2...\n"}


def test_a_line_larger_than_the_limit_is_kept(path: Path) -> None:
    file = new_file(path)
    file.append(b"x" * 50 + b"\n")
    file.append(b"y\n")
    assert contents(path) == {"": b"y\n", ".1": b"x" * 50 + b"\n"}


def test_a_line_that_a_crash_has_cut_off_does_not_join_the_next(path: Path) -> None:
    path.write_bytes(b"half a li")
    file = new_file(path, bytes_max=1000)
    file.append(b"whole\n")
    file.append(b"next\n")
    assert path.read_bytes() == b"half a li\nwhole\nnext\n"


def test_only_the_owner_can_read_the_files(path: Path) -> None:
    path.touch(0o644)
    former = os.umask(0)
    try:
        file = new_file(path)
        for _ in range(4):
            file.append(b"line of ten\n")
    finally:
        os.umask(former)
    assert {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()} == {0o600}


def test_a_file_that_another_program_has_moved_is_created_again(path: Path) -> None:
    file = new_file(path, bytes_max=1000)
    file.append(b"one\n")
    path.rename(path.with_suffix(".moved"))
    file.append(b"two\n")
    path.unlink()
    file.append(b"three\n")
    assert path.read_bytes() == b"three\n"
    assert path.with_suffix(".moved").read_bytes() == b"one\n"
