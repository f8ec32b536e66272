"""Counts of a topic's records by partition, time and key. Summaries can be merged in any order. Pure."""

import base64
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odradek.pipelines.jobs.skew.heavy_keys import HeavyKeys

KEY_PLACES: Final = 1000
WINDOW_KEY_PLACES: Final = 30
WINDOWS_MAX: Final = 120
_WINDOW_MS_MIN: Final = 1000
# The source columns.
COLUMNS: Final = ("key", "value", "partition", "timestamp")


class Tally:
    """Records and bytes of keys and values."""

    __slots__ = ("bytes", "records")

    def __init__(self, records: int = 0, bytes: int = 0) -> None:
        self.records = records
        self.bytes = bytes

    def add(self, other: "Tally") -> None:
        self.records += other.records
        self.bytes += other.bytes


class Window:
    def __init__(self) -> None:
        self.partitions: dict[int, int] = {}
        self.keys = HeavyKeys(WINDOW_KEY_PLACES)

    def merge(self, other: "Window") -> None:
        for partition, records in other.partitions.items():
            self.partitions[partition] = self.partitions.get(partition, 0) + records
        self.keys.merge(other.keys)


class Summary:
    """`windows` are by number. Their length `window_ms` doubles whenever there would be too many."""

    def __init__(self) -> None:
        self.partitions: dict[int, Tally] = {}
        self.without_key = 0
        self.keys = HeavyKeys(KEY_PLACES)
        self.window_ms = _WINDOW_MS_MIN
        self.windows: dict[int, Window] = {}

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions.values())

    def add(self, batch: Any) -> None:
        """Add records in Arrow columns."""
        if not batch.num_rows:
            return
        key, value = batch.column("key"), batch.column("value")
        size = pc.add(_length(key), _length(value))
        millis = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
        self._widen(pc.min(millis).as_py(), pc.max(millis).as_py())
        window = pc.cast(pc.floor(pc.divide(pc.cast(millis, pa.float64()), float(self.window_ms))), pa.int64())
        table = pa.table({"key": key, "partition": batch.column("partition"), "size": size, "window": window})
        grouped = table.group_by(["partition", "window"]).aggregate([("size", "sum"), ("size", "count")])
        for row in grouped.to_pylist():
            partition, number, records = row["partition"], row["window"], row["size_count"]
            self.partitions.setdefault(partition, Tally()).add(Tally(records, row["size_sum"]))
            counted = self.windows.setdefault(number, Window()).partitions
            counted[partition] = counted.get(partition, 0) + records
        keyed = table.filter(pc.is_valid(table.column("key")))
        self.without_key += table.num_rows - keyed.num_rows
        self.keys.add(_whole(keyed.column("key")))
        for number in pc.unique(keyed.column("window")).to_pylist():
            self.windows[number].keys.add(_whole(keyed.filter(pc.equal(keyed.column("window"), number)).column("key")))
        self._fit()

    def merge(self, other: "Summary") -> None:
        for partition, tally in other.partitions.items():
            self.partitions.setdefault(partition, Tally()).add(tally)
        self.without_key += other.without_key
        self.keys.merge(other.keys)
        while self.window_ms < other.window_ms:
            self._double()
        while other.window_ms < self.window_ms:
            other._double()
        for number, window in other.windows.items():
            self.windows.setdefault(number, Window()).merge(window)
        self._fit()

    def _widen(self, first_ms: int, last_ms: int) -> None:
        """Widen the windows first if the batch spans a long time, so that it does not create too many."""
        while (last_ms - first_ms) // self.window_ms >= WINDOWS_MAX:
            self._double()

    def _fit(self) -> None:
        while self.windows and max(self.windows) - min(self.windows) >= WINDOWS_MAX:
            self._double()

    def _double(self) -> None:
        self.window_ms *= 2
        windows, self.windows = self.windows, {}
        for number, window in windows.items():
            self.windows.setdefault(number // 2, Window()).merge(window)

    # ---- from tasks to the driver

    def to_json(self) -> str:
        return json.dumps(
            {
                "partitions": {number: [one.records, one.bytes] for number, one in self.partitions.items()},
                "without_key": self.without_key,
                "keys": _keys_form(self.keys),
                "window_ms": self.window_ms,
                "windows": {number: [one.partitions, _keys_form(one.keys)] for number, one in self.windows.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Summary":
        form, found = json.loads(text), cls()
        found.partitions = {int(number): Tally(*one) for number, one in form["partitions"].items()}
        found.without_key, found.window_ms = form["without_key"], form["window_ms"]
        found.keys = _keys(KEY_PLACES, form["keys"])
        for number, (partitions, keys) in form["windows"].items():
            window = found.windows[int(number)] = Window()
            window.partitions = {int(one): records for one, records in partitions.items()}
            window.keys = _keys(WINDOW_KEY_PLACES, keys)
        return found


def _length(column: Any) -> Any:
    return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _keys_form(keys: HeavyKeys) -> list[Any]:
    return [{base64.b64encode(key).decode(): count for key, count in keys.counts.items()}, keys.missed]


def _keys(places: int, form: list[Any]) -> HeavyKeys:
    return HeavyKeys(places, {base64.b64decode(key): count for key, count in form[0].items()}, form[1])
