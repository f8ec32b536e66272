import pytest

from odradek.base.ids import TopicPartition
from odradek.console.actions.action import Refused
from odradek.console.actions.form_values import broker_ids, optional_number, pairs, whole_number
from odradek.console.actions.messages import Form, bytes_of
from odradek.console.queries.messages import EXCERPT_BYTES, Excerpt, Message
from odradek.console.readings.messages import View, in_a_cell, in_full, message_rows


def excerpt(data: bytes, size: int | None = None) -> Excerpt:
    return Excerpt(data=data, size=len(data) if size is None else size)


def test_control_characters_are_escaped_but_line_breaks_are_kept() -> None:
    assert in_full(excerpt(b"a\nb\x1b[0m\x00"), View.TEXT) == "a\nb\\x1b[0m\\x00"
    assert in_a_cell(excerpt(b"a\nb\xff"), View.TEXT) == "a\\x0ab\\xff"


def test_json_is_indented_and_invalid_json_is_shown_as_text_with_the_reason() -> None:
    assert in_full(excerpt(b'{"b":1,"a":"\\u202e"}'), View.JSON) == '{\n  "b": 1,\n  "a": "\\u202e"\n}'
    shown = in_full(excerpt(b"{nope"), View.JSON)
    assert shown.startswith("{nope\n(not shown as JSON: ")
    assert "nested too deeply" in in_full(excerpt(b"[" * 60_000), View.JSON)


def test_hex_view_shows_offsets_and_printable_characters() -> None:
    assert in_full(excerpt(b"AB\x00" * 6), View.HEX).splitlines() == [
        "00000000  41 42 00 41 42 00 41 42 00 41 42 00 41 42 00 41  AB.AB.AB.AB.AB.A",
        "00000010  42 00                                            B.",
    ]


def test_truncated_value_is_marked_as_truncated() -> None:
    truncated = excerpt(b"x" * EXCERPT_BYTES, 10_000_000)
    assert in_full(truncated, View.TEXT).endswith("of 10,000,000 bytes")
    assert "only part of the value was loaded" in in_full(truncated, View.JSON)
    assert in_a_cell(truncated, View.TEXT).endswith("… (10.0 MB)")
    assert in_a_cell(excerpt(b"short"), View.HEX) == "73686f7274"


def test_null_is_shown_differently_from_an_empty_value() -> None:
    message = Message(
        partition=TopicPartition("t", 3),
        offset=7,
        timestamp_ms=-1,
        is_append_time=False,
        key=None,
        value=excerpt(b""),
        headers=(("h", None),),
    )
    (row,) = message_rows([message], View.TEXT)
    assert (row.key, row.text("key"), row.text("value"), row.text("headers")) == ("3:7", "null", "", "h=null")


@pytest.mark.parametrize("text", ["", "1.5", "٣", "1e3", "0x10", "--1", "9" * 30])
def test_invalid_number_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="The count must"):
        whole_number(text, "The count")


def test_numbers_broker_lists_and_pairs_are_parsed() -> None:
    assert whole_number(" 1,000 ", "n") == 1000
    assert optional_number(" ", "n") is None
    assert broker_ids("1, 2 3", "A broker") == (1, 2, 3)
    assert pairs("a = b=c\n\n d=\n", "Config") == {"a": "b=c", "d": ""}
    with pytest.raises(Refused, match="'nope' does not have the form name=value"):
        pairs("nope", "Config")


def test_entered_bytes_are_parsed_as_text_hex_or_null() -> None:
    assert bytes_of("ä", Form.TEXT, "x") == "ä".encode()
    assert bytes_of("00 ff", Form.HEX, "x") == b"\x00\xff"
    assert bytes_of("ignored", Form.NULL, "x") is None
    with pytest.raises(Refused, match="The key is not valid hex"):
        bytes_of("0g", Form.HEX, "The key")
