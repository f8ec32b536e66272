"""The checksum is CRC-32C with either module."""

import pytest
from crc32c import crc32c as from_the_package
from hypothesis import given
from hypothesis import strategies as st

from odradek.records import checksum


def test_crc32c_reference_value() -> None:
    assert checksum.crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_extension_belongs_to_the_package(data: bytes) -> None:
    assert checksum.crc32c(memoryview(data)) == from_the_package(data)


def test_package_is_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum.PathFinder, "find_spec", lambda *_: None)
    assert checksum._load() is from_the_package
