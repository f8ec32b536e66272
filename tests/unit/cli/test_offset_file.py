from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.offset_file import offsets_as_csv, read_offsets
from odradek.text.errors import UserError

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_of_one_group_and_of_several(tmp_path: Path) -> None:
    one = {"g": {B: 2, A: 1}}
    two = {"g": {A: 1}, 'h, "odd"': {B: 9}}
    file = tmp_path / "offsets.csv"
    file.write_text(offsets_as_csv(one))
    assert file.read_text() == "orders,0,1\norders,1,2\n"
    assert read_offsets(file, ["g"]) == one
    file.write_text(offsets_as_csv(two))
    assert read_offsets(file, list(two)) == two
    # Of a file for several groups, each can be taken alone.
    assert read_offsets(file, ["g"]) == {"g": {A: 1}}


@pytest.mark.parametrize("text", ["orders, 0, 1 \r\n", '\ufeff"orders",0,1', "\norders,0,1\n\n", "orders,0,-0\n"])
def test_what_editors_make_of_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert read_offsets(file, ["g"])["g"].keys() == {A}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"orders,0\n", ":1: topic,partition,offset is expected"),
        (b"orders,0,1,2,3\n", "is expected"),
        (b",0,1\n", "has no name"),
        (b"orders,-1,1\n", "'-1' is not the number of a partition"),
        (b"orders,4294967296,1\n", "is not the number of a partition"),
        (b"orders,0,1.5\n", "'1.5' is not an offset"),
        (b"orders,0,--1\n", "'--1' is not an offset"),
        (b"orders,0,\n", "'' is not an offset"),
        (b"\xff\xfe\n", "is not CSV"),
        (b'"orders,0,1', "is not CSV"),
        (b"", "names no offset of group 'g'"),
    ],
)
def test_half_a_file_is_none(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"offsets\.csv") as caught:
        read_offsets(file, ["g"])
    assert expected in str(caught.value)


def test_several_groups_need_their_names(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,1\n")
    with pytest.raises(UserError, match="group,topic,partition,offset is expected"):
        read_offsets(file, ["g", "h"])
