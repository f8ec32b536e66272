"""Exports records as JSON lines or CSV, bounded in number, size and time."""

import csv
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from odradek.client.admin import LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumed, Consumer
from odradek.client.record_text import json_bytes
from odradek.console.queries.messages import WAIT_MS, Wanted, matcher_of, partitions_of, start_of

MESSAGES_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024
EXPORT_S: Final = 20.0

_CSV_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
# Spreadsheets run cells that start with these characters as formulas.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class FileForm(StrEnum):
    JSON_LINES = "jsonl"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    data: bytes
    count: int
    has_reached_limit: bool
    """The export reached its limit before the end."""


def export_messages(
    cluster: Cluster, wanted: Wanted, form: FileForm, clock: Callable[[], float] = time.monotonic
) -> Exported:
    """Exports the matching records up to the current end offsets, in fetch order."""
    ends = Admin(cluster).offsets(dict.fromkeys(partitions_of(cluster, wanted), LATEST))
    positions = start_of(Admin(cluster), wanted, ends)
    consumer = Consumer(cluster, {one: at for one, at in positions.items() if at < ends[one]})
    holds, writer = matcher_of(wanted), _Writer(form)
    deadline = clock() + EXPORT_S
    while consumer.positions and not writer.is_full and clock() < deadline:
        for item in consumer.poll(wait_ms=WAIT_MS):
            if item.record.offset < ends[item.partition] and holds(item) and not writer.is_full:
                writer.add(item)
        for one in [one for one, at in consumer.positions.items() if at >= ends[one]]:
            consumer.drop(one)
    return Exported(
        data=writer.data(), count=writer.count, has_reached_limit=writer.is_full or bool(consumer.positions)
    )


class _Writer:
    def __init__(self, form: FileForm) -> None:
        self.count = 0
        self._form: Final = form
        self._text: Final = io.StringIO(newline="")
        self._rows: Final = csv.writer(self._text)
        if form is FileForm.CSV:
            self._rows.writerow(_CSV_COLUMNS)

    @property
    def is_full(self) -> bool:
        return self.count >= MESSAGES_MAX or self._text.tell() >= BYTES_MAX

    def add(self, item: Consumed) -> None:
        self.count += 1
        if self._form is FileForm.JSON_LINES:
            self._text.write(json.dumps(as_json(item), ensure_ascii=True) + "\n")
        else:
            self._rows.writerow(_cells(item))

    def data(self) -> bytes:
        return self._text.getvalue().encode()


def as_json(item: Consumed) -> dict[str, Any]:
    """Returns UTF-8 bytes as text, and other bytes as `…_base64`."""
    record = item.record
    return {
        "topic": item.partition.topic,
        "partition": item.partition.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }


def _cells(item: Consumed) -> list[str]:
    record = as_json(item)
    headers = json.dumps(record["headers"]) if record["headers"] else ""
    found = [str(record[name]) for name in _CSV_COLUMNS[:4]]
    return [_harmless(cell) for cell in (*found, _cell(record, "key"), _cell(record, "value"), headers)]


def _cell(record: dict[str, Any], name: str) -> str:
    if f"{name}_base64" in record:
        return f"base64:{record[f'{name}_base64']}"
    return "" if record[name] is None else str(record[name])


def _harmless(cell: str) -> str:
    is_number = cell.removeprefix("-").isdigit()
    return f"'{cell}" if cell.startswith(_FORMULA) and not is_number else cell
