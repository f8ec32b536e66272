"""`odradek log`: inspect the files of a log."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from odradek.base.ids import METADATA_TOPIC
from odradek.cli.log_dump import CHECKPOINT_SUFFIX, Depth, Entry, dump, find_files, kind_of
from odradek.cli.options import Format
from odradek.text.output import OutputFormat, print_json
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, json_line, neutralise
from odradek.text.times import format_time

app = typer.Typer(help="Inspect the files of a log.", no_args_is_help=True)

EXIT_CORRUPT = 1


@app.callback()
def group() -> None:
    """Inspect the files of a log."""


@app.command("dump")
def dump_files(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", show_default=False, help="Log files or partition directories."),
    ],
    records: Annotated[
        bool, typer.Option("--records", "--print-data-log", help="Show the records of each batch.")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool,
        typer.Option(
            "--cluster-metadata-decoder",
            help=f"Decode values as metadata records. Automatic for {METADATA_TOPIC} and *.checkpoint files.",
        ),
    ] = False,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Print batches, index entries, aborted transactions, producers and metadata. Exit code 1 if a file is corrupt."""
    files = find_files(paths)
    is_corrupt = False
    total = sum(path.stat().st_size for path in files)
    with progress("Reading", total, unit="bytes", wanted=not is_terminal(sys.stdout)) as advance:
        for path in files:
            is_metadata = path.parent.name.startswith(f"{METADATA_TOPIC}-") or kind_of(path) == CHECKPOINT_SUFFIX
            depth = Depth(records=records, metadata=cluster_metadata_decoder or is_metadata)
            show = _Table(path).print if format is OutputFormat.TABLE else partial(_print_json, path)
            for entry in dump(path, depth, advance):
                is_corrupt |= entry["kind"] == "damage" or entry.get("is_valid") is False
                show(entry)
    if is_corrupt:
        raise typer.Exit(EXIT_CORRUPT)


def _print_json(path: Path, entry: Entry) -> None:
    print_json({"file": str(path), **entry})


# Table columns of each kind of entry: heading and width. Width 0 is the rest of the line.
_COLUMNS: dict[str, tuple[tuple[str, int], ...]] = {
    "batch": (
        ("position", 10),
        ("size", 8),
        ("offsets", 23),
        ("records", 7),
        ("max timestamp", 29),
        ("epoch", 5),
        ("codec", 6),
        ("producer", 16),
        ("remarks", 0),
    ),
    "offset": (("offset", 19), ("position", 10), ("remarks", 0)),
    "timestamp": (("timestamp", 29), ("offset", 19)),
    "aborted_transaction": (("producer", 10), ("first offset", 19), ("last offset", 19), ("last stable offset", 19)),
    "producer": (
        ("producer", 16),
        ("last sequence", 13),
        ("last offset", 19),
        ("last timestamp", 29),
        ("open since offset", 19),
    ),
}


class _Table:
    """Prints rows as they are read, because a segment may have millions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._heading: str | None = None
        print(neutralise(str(path)))

    def print(self, entry: Entry) -> None:
        kind = entry["kind"]
        if kind == "damage":
            where = f"{entry['bytes']} bytes from position {entry['position']}: " if "position" in entry else ""
            print(neutralise(f"  CORRUPT: {where}{entry['reason']}"))
            return
        columns = _COLUMNS[kind]
        if self._heading != kind:
            self._heading = kind
            self._print_row(columns, [name for name, _ in columns])
        self._print_row(columns, _CELLS[kind](entry))
        for record in entry.get("records", ()):
            print(f"    {_record_line(record)}")

    @staticmethod
    def _print_row(columns: tuple[tuple[str, int], ...], cells: list[str]) -> None:
        padded = (f"{cell:>{width}}" if width else cell for (_, width), cell in zip(columns, cells, strict=True))
        print(neutralise("  " + "  ".join(padded).rstrip()))


def _batch_cells(entry: Entry) -> list[str]:
    return [
        str(entry["position"]),
        str(entry["size"]),
        f"{entry['base_offset']}-{entry['last_offset']}",
        str(entry["record_count"]),
        format_time(entry["max_timestamp"]),
        str(entry["leader_epoch"]),
        entry["compression"],
        _producer(entry) + (f"#{entry['base_sequence']}" if entry["base_sequence"] >= 0 else ""),
        ", ".join(_remarks(entry)),
    ]


def _remarks(entry: Entry) -> Iterator[str]:
    if not entry["is_valid"]:
        yield f"CORRUPT: {entry['reason']}"
    if entry["is_transactional"]:
        yield "transactional"
    if entry["is_control"]:
        yield "control"
    if entry["timestamp_type"] == "LogAppendTime":
        yield "append time"
    if entry["delete_horizon"] is not None:
        yield f"tombstones until {format_time(entry['delete_horizon'])}"


def _producer(entry: Entry) -> str:
    return "-" if entry["producer_id"] < 0 else f"{entry['producer_id']}/{entry['producer_epoch']}"


def _offset_cells(entry: Entry) -> list[str]:
    remark = "DOES NOT MATCH the log" if entry["agrees_with_log"] is False else ""
    return [str(entry["offset"]), str(entry["position"]), remark]


_CELLS: dict[str, Callable[[Entry], list[str]]] = {
    "batch": _batch_cells,
    "offset": _offset_cells,
    "timestamp": lambda entry: [format_time(entry["timestamp"]), str(entry["offset"])],
    "aborted_transaction": lambda entry: [
        str(entry[name]) for name in ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    ],
    "producer": lambda entry: [
        _producer(entry),
        str(entry["last_sequence"]),
        str(entry["last_offset"]),
        format_time(entry["last_timestamp"]),
        "-" if entry["transaction_first_offset"] < 0 else str(entry["transaction_first_offset"]),
    ],
}


def _record_line(record: Entry) -> str:
    rest = {name: value for name, value in record.items() if name not in ("offset", "timestamp")}
    return f"{record['offset']}  {format_time(record['timestamp'])}  {json_line(rest)}"
