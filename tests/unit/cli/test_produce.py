import io
import os
import threading

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli import produce
from odradek.cli.produce import LineParser, Tally, read_lines
from odradek.client.produce import Stored
from odradek.text.errors import UserError


def lines_of(data: bytes) -> list[bytes]:
    return [line for lines in read_lines(io.BytesIO(data), lambda amount: None) for line in lines]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\r\nb", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
def test_each_line_is_a_record(data: bytes, expected: list[bytes]) -> None:
    assert lines_of(data) == expected


def test_lines_may_be_longer_than_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "READ_BYTES", 3)
    assert lines_of(b"0123456789\nab\nc") == [b"0123456789", b"ab", b"c"]


def test_the_length_of_a_line_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "LINE_BYTES_MAX", 10)
    with pytest.raises(UserError, match="longer than 10 bytes"):
        lines_of(b"0123456789a")


def test_a_line_is_yielded_as_soon_as_it_is_complete() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as source:
        arrived = read_lines(source, lambda amount: None)
        os.write(writer, b"first\nsec")
        assert next(arrived) == [b"first"]
        threading.Timer(0.05, lambda: (os.write(writer, b"ond\n"), os.close(writer))).start()
        assert next(arrived) == [b"second"]
        assert list(arrived) == []


def parser(**changes: object) -> LineParser:
    settings = {"key": None, "separator": None, "null": None, "headers": (), "timestamp_ms": None, **changes}
    return LineParser(**settings)  # type: ignore[arg-type]


def test_lines_are_split_into_key_and_value() -> None:
    parse = parser(separator=b"::", null=b"NULL")
    assert parse(b"k::v::w", 5)[:3] == (b"k", b"v::w", 5)
    assert parse(b"k::NULL", 5)[:2] == (b"k", None)
    with pytest.raises(UserError, match="Record 3 has no key separator '::'"):
        parse(b"no separator", 5)


def test_key_timestamp_and_headers_apply_to_all_records() -> None:
    record = parser(key=b"k", timestamp_ms=9, headers=(("h", b"1"),))(b"v", 5)
    assert record[:4] == (b"k", b"v", 9, (("h", b"1"),))


def test_the_tally_counts_records_and_offsets_by_partition() -> None:
    tally = Tally()
    for base_offset, count in ((10, 5), (15, 1)):
        tally.add(Stored(TopicPartition("t", 2), base_offset, count))
    tally.add(Stored(TopicPartition("t", 0), -1, 4))
    assert tally.partitions == {2: [6, 10, 15], 0: [4, -1, -1]}
    assert tally.records == 10
