import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.client.member_assignment import assigned_partitions


def written(version: int, *, rest: bytes = b"") -> bytes:
    topic = struct.pack(">h6sI2i", 6, b"orders", 2, 5, 0)
    return struct.pack(">hI", version, 1) + topic + struct.pack(">i", -1) + rest


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 32767])
def test_all_versions_and_later_ones_are_decoded(version: int) -> None:
    found = assigned_partitions(written(version, rest=b"fields of a later version"))
    assert found == (TopicPartition("orders", 0), TopicPartition("orders", 5))


def test_an_empty_assignment_has_no_partitions() -> None:
    assert assigned_partitions(b"") == ()


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\xff\xff\0\0\0\0",
        struct.pack(">hI", 0, 0xFFFFFFF),
        struct.pack(">hIh", 0, 1, -1),
        written(0)[:-5],
    ],
)
def test_undecodable_assignments_are_none(data: bytes) -> None:
    assert assigned_partitions(data) is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_fail(data: bytes) -> None:
    assigned_partitions(data)
