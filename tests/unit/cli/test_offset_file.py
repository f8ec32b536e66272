from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.offset_file import offsets_as_csv, read_offsets
from odradek.text.errors import UserError

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_offsets_of_one_group_and_of_several_are_read_back(tmp_path: Path) -> None:
    one = {"g": {B: 2, A: 1}}
    two = {"g": {A: 1}, 'h, "odd"': {B: 9}}
    file = tmp_path / "offsets.csv"
    file.write_text(offsets_as_csv(one))
    assert file.read_text() == "orders,0,1\norders,1,2\n"
    assert read_offsets(file, ["g"]) == one
    file.write_text(offsets_as_csv(two))
    assert read_offsets(file, list(two)) == two
    # A single group can be read from a file with several groups.
    assert read_offsets(file, ["g"]) == {"g": {A: 1}}


@pytest.mark.parametrize("text", ["orders, 0, 1 \r\n", '\ufeff"orders",0,1', "\norders,0,1\n\n", "orders,0,-0\n"])
def test_whitespace_quotes_and_byte_order_marks_are_accepted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert read_offsets(file, ["g"])["g"].keys() == {A}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"orders,0\n", ":1: expected topic,partition,offset"),
        (b"orders,0,1,2,3\n", "expected topic,partition,offset"),
        (b",0,1\n", "the topic name is empty"),
        (b"orders,-1,1\n", "'-1' is not a partition number"),
        (b"orders,4294967296,1\n", "is not a partition number"),
        (b"orders,0,1.5\n", "'1.5' is not an offset"),
        (b"orders,0,--1\n", "'--1' is not an offset"),
        (b"orders,0,\n", "'' is not an offset"),
        (b"\xff\xfe\n", "is not a CSV file"),
        (b'"orders,0,1', "is not a CSV file"),
        (b"", "contains no offsets of group 'g'"),
    ],
)
def test_an_invalid_line_rejects_the_whole_file(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"offsets\.csv") as caught:
        read_offsets(file, ["g"])
    assert expected in str(caught.value)


def test_lines_need_the_group_if_there_are_several(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,1\n")
    with pytest.raises(UserError, match="expected group,topic,partition,offset"):
        read_offsets(file, ["g", "h"])
