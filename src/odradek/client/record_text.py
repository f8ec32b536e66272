"""Formats a record as a line of text, JSON, hex or base64.

Text is written unchanged to a file or a pipe; on a terminal its control characters are escaped.
"""

import base64
from collections.abc import Iterable
from enum import StrEnum
from typing import IO, Any

from odradek.client.consume import Consumed
from odradek.text.errors import UserError
from odradek.text.terminal import json_line, neutralise
from odradek.text.times import format_time

FIELDS = ("timestamp", "partition", "offset", "headers", "key")
"""The fields that can precede a value, in this order."""


class RecordFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


def parse_shown(text: str) -> tuple[str, ...]:
    wanted = {part.strip() for part in text.split(",") if part.strip()}
    for name in sorted(wanted.difference(FIELDS)):
        raise UserError(f"--show: unknown field {name!r}. Choose from {', '.join(FIELDS)}.")
    return tuple(name for name in FIELDS if name in wanted)


class RecordWriter:
    """Writes records. `on_terminal` escapes control characters, which a terminal would interpret."""

    def __init__(self, output: IO[bytes], format: RecordFormat, shown: tuple[str, ...], *, on_terminal: bool) -> None:
        self._output = output
        self._format = format
        self._shown = shown
        self._on_terminal = on_terminal

    def write(self, records: Iterable[Consumed]) -> None:
        """Write a line for each record and flush."""
        self._output.write(b"".join(map(self._line, records)))
        self._output.flush()

    def _line(self, consumed: Consumed) -> bytes:
        if self._format is RecordFormat.JSON:
            return json_line(as_json(consumed)).encode() + b"\n"
        parts = [self._field(name, consumed) for name in self._shown]
        return b"\t".join((*parts, self._content(consumed.record.value))) + b"\n"

    def _field(self, name: str, consumed: Consumed) -> bytes:
        record = consumed.record
        match name:
            case "timestamp":
                return format_time(record.timestamp).encode()
            case "partition":
                return b"%d" % consumed.partition.partition
            case "offset":
                return b"%d" % record.offset
            case "headers":
                return b",".join(
                    self._safe(header.encode()) + b"=" + self._content(value) for header, value in record.headers
                )
        return self._content(record.key)

    def _content(self, data: bytes | None) -> bytes:
        if data is None:
            return b"null"
        if self._format is RecordFormat.HEX:
            return data.hex().encode()
        if self._format is RecordFormat.BASE64:
            return base64.b64encode(data)
        return self._safe(data)

    def _safe(self, data: bytes) -> bytes:
        return neutralise(data.decode(errors="backslashreplace")).encode() if self._on_terminal else data


def as_json(consumed: Consumed) -> dict[str, Any]:
    record = consumed.record
    return {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if consumed.is_append_time else "CreateTime",
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }


def json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """Encode bytes as text if they are UTF-8, else as base64 under `NAME_base64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
