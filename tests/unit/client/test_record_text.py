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


def written(format: RecordFormat, record: Consumed, *, shown: str = "", on_terminal: bool = False) -> bytes:
    output = io.BytesIO()
    RecordWriter(output, format, parse_shown(shown), on_terminal=on_terminal).write([record])
    return output.getvalue()


def test_into_a_pipe_text_goes_byte_for_byte() -> None:
    assert written(RecordFormat.TEXT, consumed(None, HOSTILE)) == HOSTILE + b"\n"


def test_onto_a_terminal_control_characters_are_spelled_out() -> None:
    record = consumed(HOSTILE, HOSTILE, (("\x1b]0;x\x07", HOSTILE),))
    for format in RecordFormat:
        line = written(format, record, shown="key,headers", on_terminal=True)
        assert line.endswith(b"\n")
        assert line[:-1].decode().replace("\t", "").isprintable()
    assert written(RecordFormat.TEXT, record, on_terminal=True) == b"\\x1b[2Jred\\x07\\x0a\\xff\n"


def test_fields_stand_before_the_value_in_a_fixed_order() -> None:
    record = consumed(b"k", b"v", (("h", b"1"), ("i", None)))
    line = written(RecordFormat.TEXT, record, shown="key, offset,headers,partition,timestamp")
    time, *rest = line.rstrip(b"\n").split(b"\t")
    assert rest == [b"3", b"42", b"h=1,i=null", b"k", b"v"]
    assert time.startswith(b"2023-11-1")


def test_hex_and_base64() -> None:
    assert written(RecordFormat.HEX, consumed(None, b"\x00\xff")) == b"00ff\n"
    assert written(RecordFormat.BASE64, consumed(b"\x00", b"\x00\xff"), shown="key") == b"AA==\tAP8=\n"
    assert written(RecordFormat.HEX, consumed(None, None)) == b"null\n"


def test_json_tells_text_bytes_and_null_apart() -> None:
    record = consumed(b"\xff", None, (("a", b"1"), ("a", b"\xfe")))
    assert json.loads(written(RecordFormat.JSON, record)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1700000000000,
        "timestamp_type": "CreateTime",
        "key_base64": "/w==",
        "value": None,
        "headers": [{"name": "a", "value": "1"}, {"name": "a", "value_base64": "/g=="}],
    }


def test_a_field_that_records_do_not_have() -> None:
    with pytest.raises(UserError, match="unknown field 'color'"):
        parse_shown("key,color")
