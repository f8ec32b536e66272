"""Responses as text: everything that must be equal on both brokers, with names in place of what may differ.

Ids, ports, directories, times of the broker's clock and disk sizes get names; throttle times are left out. Arrays are
sorted where Kafka keeps them in hash maps, which is nearly everywhere.
"""

import dataclasses
import re
import time
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Any
from uuid import UUID

from odradek.base.ids import uuid_to_text
from tests.record_batches import BatchFields, parse_batches

_LEFT_OUT = {"throttle_time", "throttle_time_ms"}
_IN_ORDER = {"synonyms"}
_DAY_MS = 24 * 3600 * 1000
_TIME_BOUNDS = re.compile(r"\[-?\d{13,}, -?\d{13,}\]")
_MASKED_WHEN_SET = {
    "port": "<port>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "session_id": "<session>",
    "finalized_features_epoch": "<metadata offset>",
}


class Names:
    """What this broker calls things, and what the transcript calls them."""

    def __init__(self) -> None:
        self._uuids: dict[UUID, str] = {UUID(int=0): "<no id>"}
        self._producers: dict[int, str] = {}
        self._texts: dict[str, str] = {}

    def uuid(self, value: UUID, name: str) -> None:
        self._uuids[value] = name
        self._texts[uuid_to_text(value)] = name

    def text(self, value: str, name: str) -> None:
        self._texts[value] = name

    def producer(self, value: int, name: str) -> None:
        self._producers[value] = name
        self._texts[f"producer id {value}"] = f"producer id {name}"

    def of_uuid(self, value: UUID) -> str:
        return self._uuids.get(value, "<unknown id>")

    def of_producer(self, value: int) -> str:
        return self._producers.get(value, str(value) if value < 0 else "<producer>")

    def in_text(self, value: str) -> str:
        for text, name in self._texts.items():
            value = value.replace(text, name)
        return _TIME_BOUNDS.sub("[<time>, <time>]", value)


def render(entity: Any, names: Names) -> list[str]:
    """The lines of one response, indented by structure."""
    return _lines(entity, names, leave_out=_LEFT_OUT)


def _lines(entity: Any, names: Names, leave_out: set[str] | frozenset[str] = frozenset()) -> list[str]:
    fields = [(f.name, getattr(entity, f.name)) for f in dataclasses.fields(entity) if f.name not in leave_out]
    flat = [(name, value) for name, value in fields if not _is_nested(name, value)]
    lines = []
    if flat:
        lines.append(", ".join(f"{name}={_scalar(name, value, names)}" for name, value in flat))
    for name, value in fields:
        if not _is_nested(name, value):
            continue
        if name == "records":
            lines.append("records:")
            lines += [f"  - {_batch(batch, names)}" for batch in parse_batches(bytes(value))]
        else:
            lines.append(f"{name}:")
            items = [_lines(item, names) or ["(empty)"] for item in value]
            for item in items if name in _IN_ORDER else sorted(items):
                lines.append(f"  - {item[0]}")
                lines += [f"    {line}" for line in item[1:]]
    return lines


def _is_nested(name: str, value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and dataclasses.is_dataclass(value[0])
    return name == "records" and isinstance(value, bytes | memoryview) and len(value) > 0


def _scalar(name: str, value: Any, names: Names) -> str:
    if name in _MASKED_WHEN_SET:
        return _MASKED_WHEN_SET[name] if value > 0 else str(value)
    if name == "documentation" and value is not None:
        # The words are each project's own.
        return "<words>"
    if name == "producer_id":
        return names.of_producer(value)
    if dataclasses.is_dataclass(value):
        return f"({', '.join(_lines(value, names))})"
    if isinstance(value, datetime):
        return _time(int(value.timestamp() * 1000))
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, UUID):
        return names.of_uuid(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str):
        return repr(names.in_text(value))
    if isinstance(value, tuple):
        return "[" + ", ".join(_scalar(name, item, names) for item in value) + "]"
    if "timestamp" in name and isinstance(value, int):
        return _time(value)
    return "none" if value is None else str(value)


def _time(milliseconds: int) -> str:
    """A time the request gave is kept; one from the broker's clock is today's."""
    return "<now>" if abs(milliseconds - time.time() * 1000) < _DAY_MS else str(milliseconds)


def _batch(batch: BatchFields, names: Names) -> str:
    return (
        f"offsets {batch.base_offset}-{batch.base_offset + batch.last_offset_delta}, {batch.record_count} records, "
        f"epoch {batch.leader_epoch}, attributes {batch.attributes:#04x}, "
        f"times {_time(batch.base_timestamp)}-{_time(batch.max_timestamp)}, "
        f"producer {names.of_producer(batch.producer_id)}/{batch.producer_epoch}/{batch.base_sequence}, "
        f"body {len(batch.body)} bytes {sha256(batch.body).hexdigest()[:12]}"
    )
