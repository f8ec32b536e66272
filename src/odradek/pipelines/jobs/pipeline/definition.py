"""Reads and validates a pipeline's YAML file, and reports all errors at once. Pure except for reading the file."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from odradek.pipelines.jobs.columns import SchemaProblem, parse_columns
from odradek.pipelines.jobs.pipeline.functions import PythonFunction, find_function
from odradek.pipelines.jobs.pipeline.source_values import KEYS as VALUE_KEYS
from odradek.pipelines.jobs.pipeline.source_values import SourceValues, read_values
from odradek.pipelines.jobs.tables.catalogs import CatalogPlace
from odradek.pipelines.jobs.tables.table import TableFormat
from odradek.pipelines.jobs.values import ValueKind
from odradek.text.errors import UserError, nearest, with_full_stop

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SPAN: Final = re.compile(r"(\d+)\s*(ms|s|m|h)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
_WATERMARK: Final = re.compile(r"(\w+)\s+(\d+\s*\w+)")
_MODES: Final = ("append", "update", "complete")

_TOP: Final = (
    "name",
    "bootstrap",
    "command_config",
    "sources",
    "transformations",
    "sinks",
    "dead_letters",
    "trigger",
    "state",
)
_SOURCE: Final = ("topic", "schema", *VALUE_KEYS, "from", "watermark", "max_records")
_FUNCTION: Final = ("python", "from")
_CATALOG: Final = ("catalog", "catalog_table")
_SINK: Final = ("from", "table", "format", *_CATALOG, "topic", "key", "mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    name: str
    topic: str
    schema: str | None
    """None: rows have the record columns (key, value, …)."""
    values: SourceValues
    start: str
    watermark: tuple[str, str] | None
    max_records: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    name: str
    view: str
    table: Path | None
    format: TableFormat
    place: CatalogPlace
    """For Iceberg tables."""
    topic: str | None
    key: str | None
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    name: str
    bootstrap: str
    command_config: Path | None = None
    """Client properties for TLS and SASL."""
    sources: tuple[Source, ...]
    transformations: Mapping[str, str | PythonFunction]
    """SQL queries or functions. Each may use those before it."""
    sinks: tuple[Sink, ...]
    dead_letters: str | None
    interval: str | None
    """None: process the available records, then end."""
    state: Path

    def topics(self) -> list[str]:
        """Return all topics that must exist."""
        written = [sink.topic for sink in self.sinks if sink.topic is not None]
        return [
            *(source.topic for source in self.sources),
            *written,
            *([self.dead_letters] if self.dead_letters else []),
        ]


def read_pipeline(file: Path) -> Pipeline:
    """Raises UserError with all errors."""
    try:
        form = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{str(file)!r}{where}: invalid YAML: {getattr(error, 'problem', None) or error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{str(file)!r} is not a text file.") from None
    return parse_pipeline(form, directory=file.absolute().parent, title=str(file))


def parse_pipeline(form: object, *, directory: Path, title: str = "The pipeline") -> Pipeline:
    reader = _Reader(directory)
    found = reader.pipeline(form)
    if reader.problems or found is None:
        raise UserError(with_full_stop(f"{title}: {'; '.join(one.rstrip('.') for one in reader.problems)}"))
    return found


class _Reader:
    def __init__(self, directory: Path) -> None:
        self.problems: list[str] = []
        self._directory: Final = directory

    def pipeline(self, form: object) -> Pipeline | None:
        top = self._mapping(form, "the file")
        self._check_keys(top, _TOP, "")
        name = self._text(top, "name", "") or ""
        if name and not _PIPELINE_NAME.fullmatch(name):
            self._wrong("name", f"{name!r} is invalid, use only the characters a-z A-Z 0-9 _ -")
        sources = [self._source(*one) for one in self._named_entries(top, "sources")]
        views = [source.name for source in sources]
        transformations = {}
        for key, one in self._named_entries(top, "transformations"):
            transformations[key] = self._transformation(key, one, views)
            views.append(key)
        for repeated in sorted({one for one in views if views.count(one) > 1}):
            self._wrong(f"transformations.{repeated}", "a source has the same name")
        sinks = [self._sink(key, one, views) for key, one in self._named_entries(top, "sinks")]
        if not sources:
            self._wrong("sources", "at least one is required")
        if not sinks:
            self._wrong("sinks", "at least one is required")
        state, command_config = (self._text(top, key, "", needed=False) for key in ("state", "command_config"))
        found = Pipeline(
            name=name,
            bootstrap=self._text(top, "bootstrap", "", needed=False) or "127.0.0.1:9092",
            command_config=None if command_config is None else self._directory / command_config,
            sources=tuple(sources),
            transformations=transformations,
            sinks=tuple(sinks),
            dead_letters=self._text(top, "dead_letters", "", needed=False),
            interval=self._interval(top.get("trigger", "once")),
            state=self._directory / (state or f".odradek/{name}"),
        )
        return None if self.problems else found

    def _source(self, name: str, form: object) -> Source:
        where = f"sources.{name}"
        one = self._mapping(form, where)
        self._check_keys(one, _SOURCE, where)
        schema = self._text(one, "schema", where, needed=False)
        if schema is not None:
            try:
                parse_columns(schema)
            except SchemaProblem as error:
                self._wrong(f"{where}.schema", str(error))
        values = self._values(one, where)
        if schema is None and values.kind is not ValueKind.JSON:
            self._wrong(f"{where}.schema", "is missing, list the columns like 'id bigint, name string'")
        start = self._text(one, "from", where, needed=False) or "beginning"
        if start not in ("beginning", "end"):
            self._wrong(f"{where}.from", f"{start!r} is invalid, use beginning or end")
        records = one.get("max_records")
        if records is not None and (type(records) is not int or records < 1):
            self._wrong(f"{where}.max_records", f"{records!r} is not a positive integer")
        watermark = self._text(one, "watermark", where, needed=False)
        parts = _WATERMARK.fullmatch(watermark.strip()) if watermark else None
        if watermark and parts is None:
            self._wrong(
                f"{where}.watermark", f"{watermark!r} is invalid, use a column and a delay like `at 10 minutes`"
            )
        return Source(
            name=name,
            topic=self._text(one, "topic", where) or "",
            schema=schema,
            values=values,
            start=start,
            watermark=None if parts is None else (parts[1], parts[2]),
            max_records=records,
        )

    def _values(self, one: Mapping[str, Any], where: str) -> SourceValues:
        files = one.get("schema_file", [])
        files = files if isinstance(files, list) else [files]
        if not all(isinstance(file, str) for file in files):
            self._wrong(f"{where}.schema_file", "is neither a file name nor a list of file names")
            return SourceValues()
        kind, message, registry = (
            self._text(one, key, where, needed=False) for key in ("values", "message", "schema_registry")
        )
        try:
            return read_values(kind or ValueKind.JSON, files, message, registry, self._directory)
        except UserError as error:
            self._wrong(where, str(error))
            return SourceValues()

    def _sink(self, name: str, form: object, views: list[str]) -> Sink:
        where = f"sinks.{name}"
        one = self._mapping(form, where)
        self._check_keys(one, _SINK, where)
        view = self._text(one, "from", where) or ""
        if view and view not in views:
            meant = nearest(view, views)
            self._wrong(f"{where}.from", f"there is no view {view!r}" + (f", did you mean {meant!r}?" if meant else ""))
        table, topic = self._text(one, "table", where, needed=False), self._text(one, "topic", where, needed=False)
        if (table is None) == (topic is None):
            self._wrong(where, "set either table or topic")
        format = self._text(one, "format", where, needed=False) or TableFormat.DELTA
        if format not in list(TableFormat):
            self._wrong(f"{where}.format", f"{format!r} is invalid, use one of {', '.join(TableFormat)}")
            format = TableFormat.DELTA
        mode = self._text(one, "mode", where, needed=False) or "append"
        if mode not in _MODES:
            self._wrong(f"{where}.mode", f"{mode!r} is invalid, use one of {', '.join(_MODES)}")
        if table is not None and mode != "append":
            self._wrong(f"{where}.mode", "tables only support append, set the source's watermark or write to a topic")
        for key in ("key",) if table is not None else ("format",):
            if key in one:
                self._wrong(f"{where}.{key}", "is only for topics" if key == "key" else "is only for tables")
        place = CatalogPlace(*(self._text(one, key, where, needed=False) for key in _CATALOG))
        for key in _CATALOG:
            if key in one and format != TableFormat.ICEBERG:
                self._wrong(f"{where}.{key}", "is only for tables with format iceberg")
        return Sink(
            name=name,
            view=view,
            table=None if table is None else self._directory / table,
            format=TableFormat(format),
            place=place,
            topic=topic,
            key=self._text(one, "key", where, needed=False),
            mode=mode,
        )

    def _transformation(self, name: str, form: object, views: list[str]) -> str | PythonFunction:
        where = f"transformations.{name}"
        if isinstance(form, dict):
            return self._function(form, where, views)
        if not isinstance(form, str) or not form.strip():
            self._wrong(where, "requires a SQL query, or `python` and `from`")
            return ""
        return form.strip().rstrip(";")

    def _function(self, form: object, where: str, views: list[str]) -> str | PythonFunction:
        one = self._mapping(form, where)
        self._check_keys(one, _FUNCTION, where)
        named = one.get("from")
        given = [named] if isinstance(named, str) else named
        if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
            self._wrong(f"{where}.from", "is missing, set a view or several like [orders, products]")
            given = []
        for view in given:
            if view not in views:
                meant = nearest(view, views)
                suggestion = f", did you mean {meant!r}?" if meant else ""
                self._wrong(f"{where}.from", f"there is no view {view!r} before it{suggestion}")
        text = self._text(one, "python", where)
        if text is None or not given:
            return ""
        try:
            return find_function(text, tuple(given), self._directory)
        except ValueError as error:
            self._wrong(f"{where}.python", str(error))
            return ""

    def _interval(self, form: object) -> str | None:
        if form == "once":
            return None
        found = _SPAN.fullmatch(form.strip()) if isinstance(form, str) else None
        if found is None:
            self._wrong("trigger", f"{form!r} is invalid, use once or an interval like 10s")
            return None
        return f"{found[1]} {_UNITS[found[2]]}"

    def _named_entries(self, top: Mapping[str, Any], key: str) -> Iterable[tuple[str, object]]:
        form = top.get(key)
        if form is None:
            return
        for name, one in self._mapping(form, key).items():
            if _NAME.fullmatch(name):
                yield name, one
            else:
                self._wrong(f"{key}.{name}", "is not a valid name, use a-z A-Z 0-9 _ and do not start with a digit")

    def _mapping(self, form: object, where: str) -> Mapping[str, Any]:
        if isinstance(form, dict) and all(isinstance(key, str) for key in form):
            return form
        self._wrong(where, "must be a mapping of names to values")
        return {}

    def _check_keys(self, form: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in form:
            if key not in known:
                meant = nearest(key, known)
                advice = f"did you mean {meant!r}?" if meant else f"use one of {', '.join(known)}"
                self._wrong(f"{where}.{key}".lstrip("."), f"unknown key, {advice}")

    def _text(self, form: Mapping[str, Any], key: str, where: str, *, needed: bool = True) -> str | None:
        value = form.get(key)
        if value is None:
            if needed:
                self._wrong(f"{where}.{key}".lstrip("."), "is missing")
            return None
        if not isinstance(value, str):
            self._wrong(f"{where}.{key}".lstrip("."), f"{value!r} is not text")
            return None
        return value

    def _wrong(self, where: str, what: str) -> None:
        self.problems.append(f"{where}: {what}")
