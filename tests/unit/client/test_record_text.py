import io
import json

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.consume import Consumed
from odradek.client.record_text import RecordFormat, RecordWriter, parse_shown
from odradek.records.record import Record
from odradek.text.errors import UserError

HOSTILE = b"\x1b[2Jred\x07\n\xff"


def consumed(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Consumed:
    return Consumed(TopicPartition("orders", 3), Record(key, value, 1700000000000, headers, 42), False)


def write(format: RecordFormat, record: Consumed, *, shown: str = "", on_terminal: bool = False) -> bytes:
    output = io.BytesIO()
    RecordWriter(output, format, parse_shown(shown), on_terminal=on_terminal).write([record])
    return output.getvalue()


def test_text_is_unchanged_in_a_pipe() -> None:
    assert write(RecordFormat.TEXT, consumed(None, HOSTILE)) == HOSTILE + b"\n"


def test_control_characters_are_escaped_on_a_terminal() -> None:
    record = consumed(HOSTILE, HOSTILE, (("\x1b]0;x\x07", HOSTILE),))
    for format in RecordFormat:
        line = write(format, record, shown="key,headers", on_terminal=True)
        assert line.endswith(b"\n")
        assert line[:-1].decode().replace("\t", "").isprintable()
    assert write(RecordFormat.TEXT, record, on_terminal=True) == b"\\x1b[2Jred\\x07\\x0a\\xff\n"


def test_fields_precede_the_value_in_a_fixed_order() -> None:
    record = consumed(b"k", b"v", (("h", b"1"), ("i", None)))
    line = write(RecordFormat.TEXT, record, shown="key, offset,headers,partition,timestamp")
    time, *rest = line.rstrip(b"\n").split(b"\t")
    assert rest == [b"3", b"42", b"h=1,i=null", b"k", b"v"]
    assert time.startswith(b"2023-11-1")


def test_hex_and_base64_formats() -> None:
    assert write(RecordFormat.HEX, consumed(None, b"\x00\xff")) == b"00ff\n"
    assert write(RecordFormat.BASE64, consumed(b"\x00", b"\x00\xff"), shown="key") == b"AA==\tAP8=\n"
    assert write(RecordFormat.HEX, consumed(None, None)) == b"null\n"


def test_json_distinguishes_text_bytes_and_null() -> None:
    record = consumed(b"\xff", None, (("a", b"1"), ("a", b"\xfe")))
    assert json.loads(write(RecordFormat.JSON, record)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1700000000000,
        "timestamp_type": "CreateTime",
        "key_base64": "/w==",
        "value": None,
        "headers": [{"name": "a", "value": "1"}, {"name": "a", "value_base64": "/g=="}],
    }


def test_unknown_fields_are_rejected() -> None:
    with pytest.raises(UserError, match="unknown field 'color'"):
        parse_shown("key,color")
