"""Formats records as text, JSON or hex."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from odradek.console.queries.messages import PAGE_MESSAGES, Excerpt, Found, Message, Wanted
from odradek.console.readings.table import Column, Row, format_count, inert
from odradek.pipelines.schemas.decoding import Decode, decode_framed
from odradek.pipelines.schemas.framing import schema_id_of
from odradek.pipelines.schemas.schema import Undecodable
from odradek.text.amounts import format_bytes
from odradek.text.terminal import neutralise
from odradek.text.times import format_time

SHOW = "Show"
_CELL_CHARACTERS: Final = 160
_HEX_BYTES_A_LINE: Final = 16
# Decoded text may be longer than the encoded bytes.
_DECODED_CHARACTERS_MAX: Final = 256 * 1024
_NO_DECODERS: Final[Mapping[int, Decode]] = {}

COLUMNS = (
    Column("position", "Partition : offset"),
    Column("time", "Time"),
    Column("key", "Key"),
    Column("value", "Value"),
    Column("headers", "Headers"),
    Column("size", "Size", is_number=True),
)


class View(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    SCHEMA = "schema"


def message_rows(messages: Iterable[Message], view: View, decoders: Mapping[int, Decode] = _NO_DECODERS) -> list[Row]:
    return [_row(message, view, decoders) for message in messages]


def schema_ids_of(messages: Iterable[Message]) -> set[int]:
    found = {schema_id_of(part.data) for one in messages for part in (one.key, one.value) if part is not None}
    return {one for one in found if one is not None}


def key_of(message: Message) -> str:
    return f"{message.partition.partition}:{message.offset}"


def found_sentence(found: Found, wanted: Wanted) -> str:
    scanned = f"{format_count(found.scanned, 'message')} scanned"
    if found.messages:
        begun = f"{format_count(len(found.messages), 'message')} shown"
    elif wanted.expression:
        begun = "No matching messages"
    elif wanted.search:
        begun = f"No message contains {inert(wanted.search)!r}"
    else:
        begun = "No messages"
    line = f"{begun}, {scanned}" if wanted.has_filter else begun
    if found.has_reached_limit:
        return f"{line}; more messages follow: press Next."
    return f"{line}; end of the log." if found.is_at_end and len(found.messages) < PAGE_MESSAGES else f"{line}."


def in_a_cell(excerpt: Excerpt | None, view: View, decoders: Mapping[int, Decode] = _NO_DECODERS) -> str:
    if excerpt is None:
        return "null"
    if view is View.SCHEMA:
        try:
            shown = neutralise(json.dumps(_decode(excerpt, decoders), ensure_ascii=False, default=_plain))
            return shown if len(shown) <= _CELL_CHARACTERS else f"{shown[:_CELL_CHARACTERS]} …"
        except Undecodable:
            view = View.TEXT
    if view is View.HEX:
        shown = excerpt.data[: _CELL_CHARACTERS // 2].hex()
    else:
        # Four bytes make one character at most.
        shown = neutralise(excerpt.data[: 4 * _CELL_CHARACTERS].decode(errors="backslashreplace"))[:_CELL_CHARACTERS]
    is_truncated = excerpt.size * 2 > len(shown) if view is View.HEX else excerpt.size > len(shown.encode())
    return (
        f"{shown} … ({format_bytes(excerpt.size)})" if is_truncated and excerpt.size > _CELL_CHARACTERS // 2 else shown
    )


def in_full(excerpt: Excerpt | None, view: View, decoders: Mapping[int, Decode] = _NO_DECODERS) -> str:
    """Keeps line breaks; appends a note if the value is truncated or not in the requested format."""
    if excerpt is None:
        return "null"
    remark = ""
    if not excerpt.is_whole:
        remark = f"\n… the first {format_bytes(len(excerpt.data))} of {excerpt.size:,} bytes"
    match view:
        case View.HEX:
            return _hex_lines(excerpt.data) + remark
        case View.JSON:
            try:
                if not excerpt.is_whole:
                    raise ValueError("only part of the value was loaded")
                parsed = json.loads(excerpt.data)
                return _safe_lines(json.dumps(parsed, indent=2, ensure_ascii=False))
            except (ValueError, RecursionError) as error:
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else inert(str(error))
                return f"{_safe_lines(_text(excerpt.data))}{remark}\n(not shown as JSON: {reason})"
        case View.SCHEMA:
            try:
                shown = json.dumps(_decode(excerpt, decoders), indent=2, ensure_ascii=False, default=_plain)
                return _safe_lines(shown[:_DECODED_CHARACTERS_MAX])
            except Undecodable as error:
                return f"{_safe_lines(_text(excerpt.data))}{remark}\n(not decoded: {inert(str(error))})"
        case View.TEXT:
            return _safe_lines(_text(excerpt.data)) + remark


def _decode(excerpt: Excerpt, decoders: Mapping[int, Decode]) -> object:
    """Raises Undecodable."""
    if not excerpt.is_whole:
        raise Undecodable("only part of the value was loaded")
    return decode_framed(excerpt.data, decoders)


def _plain(value: object) -> str:
    """Formats types that JSON lacks: bytes, decimals, dates."""
    return value.hex() if isinstance(value, bytes) else str(value)


def heading_of(message: Message) -> str:
    when = f"{'appended' if message.is_append_time else 'created'} {format_time(message.timestamp_ms)}"
    return f"Partition {message.partition.partition}, offset {message.offset:,}, {when}"


def _row(message: Message, view: View, decoders: Mapping[int, Decode]) -> Row:
    headers = ", ".join(f"{inert(name)}={in_a_cell(value, View.TEXT)}" for name, value in message.headers)
    return Row(
        key_of(message),
        {
            "position": f"{message.partition.partition} : {message.offset}",
            "time": format_time(message.timestamp_ms),
            "key": in_a_cell(message.key, view, decoders),
            "value": in_a_cell(message.value, view, decoders),
            "headers": headers[:_CELL_CHARACTERS],
            "size": format_bytes(
                (message.key.size if message.key else 0) + (message.value.size if message.value else 0)
            ),
        },
        (SHOW,),
    )


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _safe_lines(text: str) -> str:
    return "\n".join(neutralise(line) for line in text.split("\n"))


def _hex_lines(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), _HEX_BYTES_A_LINE):
        part = data[start : start + _HEX_BYTES_A_LINE]
        printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * _HEX_BYTES_A_LINE}} {printable}")
    return "\n".join(lines) or "(no bytes)"
