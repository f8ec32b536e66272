"""Files that config providers read."""

import os
from pathlib import Path

import pytest

from odradek.host.provider_sources import HostProviderSources

SOURCES = HostProviderSources()


def test_a_file_is_read_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes("grün\r\n".encode())
    (tmp_path / "link").symlink_to(file)
    assert SOURCES.read_file(str(file)) == SOURCES.read_file(str(tmp_path / "link")) == "grün\r\n"
    assert SOURCES.exists(str(file))
    assert not SOURCES.exists(str(tmp_path / "none"))


def test_special_large_and_binary_files_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(OSError):
            SOURCES.read_file(path)
    for name in ("large", "binary"):
        with pytest.raises(ValueError):
            SOURCES.read_file(str(tmp_path / name))
