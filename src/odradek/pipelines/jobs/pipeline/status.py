"""The progress of a pipeline's queries, stored in a file for `odradek pipeline status`. Pure except for that file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.jobs.status_file import keep_status, read_status

DEAD_LETTERS_METRIC: Final = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """The progress in this run. `offsets` and `ends` are by topic and partition."""

    name: str
    batch: int | None = None
    records: int = 0
    records_per_second: float | None = None
    dead_letters: int = 0
    offsets: Mapping[str, Mapping[str, int]]
    ends: Mapping[str, Mapping[str, int]]

    @property
    def lag(self) -> int:
        return sum(
            max(0, end - self.offsets.get(topic, {}).get(number, 0))
            for topic, ends in self.ends.items()
            for number, end in ends.items()
        )

    @property
    def seconds_left(self) -> float | None:
        return self.lag / self.records_per_second if self.records_per_second else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag": self.lag, "seconds_left": self.seconds_left}


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    pid: int
    state: str
    """running, done, stopped or failed."""
    at_ms: int
    queries: tuple[QueryStatus, ...]
    failure: str | None = None

    def keep(self, directory: Path) -> None:
        keep_status(directory, self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "state": self.state,
            "at_ms": self.at_ms,
            "failure": self.failure,
            "queries": [one.to_json() for one in self.queries],
        }

    @classmethod
    def read(cls, directory: Path) -> "PipelineStatus | None":
        form = read_status(directory)
        if form is None:
            return None
        own = ("name", "batch", "records", "records_per_second", "dead_letters", "offsets", "ends")
        queries = tuple(QueryStatus(**{key: one[key] for key in own}) for one in form["queries"])
        return cls(form["pid"], form["state"], form["at_ms"], queries, form["failure"])


class QueryWatch:
    """Adds up Spark's progress reports of a query."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._seen: int | None = None
        self._records = self._dead_letters = 0
        self.status = QueryStatus(name=name, offsets={}, ends={})

    def take(self, reports: Sequence[Mapping[str, Any]]) -> bool:
        """Add Spark's latest progress reports, oldest first. Returns whether there was a new batch."""
        news = [one for one in reports if self._seen is None or one["batchId"] > self._seen]
        for report in news:
            self._records += int(_total(report, "numInputRows"))
            letters = (report.get("observedMetrics") or {}).get(DEAD_LETTERS_METRIC)
            self._dead_letters += 0 if letters is None else _metric_value(letters)
        if reports:
            last = reports[-1]
            self._seen = last["batchId"]
            sources = last.get("sources") or ()
            self.status = QueryStatus(
                name=self._name,
                batch=last["batchId"],
                records=self._records,
                records_per_second=_total(last, "processedRowsPerSecond") or None,
                dead_letters=self._dead_letters,
                offsets=_offsets(sources, "endOffset"),
                ends=_offsets(sources, "latestOffset") or _offsets(sources, "endOffset"),
            )
        return bool(news)


def _total(report: Mapping[str, Any], figure: str) -> float:
    """Return the total of all sources. With Connect, reports have it only by source."""
    found = report.get(figure)
    return sum(source.get(figure) or 0 for source in report.get("sources") or ()) if found is None else found


def _metric_value(row: Mapping[str, Any]) -> int:
    """Return the value of a metric. With Connect, a row has a schema and values."""
    return int(row["values"][0] if "schema" in row else row["rows"])


def _offsets(sources: Sequence[Mapping[str, Any]], key: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for source in sources:
        form = source.get(key)
        form = json.loads(form) if isinstance(form, str) else form
        for topic, position in (form or {}).items():
            found.setdefault(topic, {}).update(position["offsets"])
    return found
