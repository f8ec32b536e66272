"""`odradek produce`: send records from the command line or from the lines of standard input."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import IO, Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Timeout,
    open_cluster,
    parse_assignments,
)
from odradek.client.produce import ACKS_ALL, Producer, Stored
from odradek.core.security.resources import Operation
from odradek.records.compression import Compression
from odradek.records.record import Record
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json
from odradek.text.progress import Advance, progress
from odradek.text.terminal import is_terminal, say
from odradek.text.times import parse_time_ms

READ_BYTES = 512 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024


class Acks(StrEnum):
    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VALUE…]",
            show_default=False,
            help="Record values. Default: one record per line of standard input.",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all records.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Separator between key and value in each line.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records. Repeatable."),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="Send values equal to TEXT as null (tombstones).")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Partition of all records.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIME",
            help="Timestamp of all records: ISO 8601 or epoch milliseconds. Default: the current time.",
        ),
    ] = None,
    acks: Annotated[Acks, typer.Option("--acks", help="Acknowledgements to wait for.")] = Acks.ALL,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Compression codec.")] = Codec.NONE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Send records to a topic."""
    if key is not None and key_separator is not None:
        raise UserError("--key and --key-separator are mutually exclusive. Use one of them.")
    if key_separator == "":
        raise UserError("--key-separator is empty. Specify one or more characters.")
    parse = LineParser(
        key=None if key is None else os.fsencode(key),
        separator=None if key_separator is None else os.fsencode(key_separator),
        null=None if null is None else os.fsencode(null),
        headers=tuple((name, os.fsencode(value)) for name, value in parse_assignments(header, "--header").items()),
        timestamp_ms=None if timestamp is None else parse_time_ms(timestamp, "--timestamp"),
    )
    tally = Tally()
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        cluster.retry("looking up the topic", lambda: cluster.topics([topic], purpose=Operation.WRITE))
        acks_number = ACKS_ALL if acks is Acks.ALL else int(acks)
        producer = Producer(cluster, acks=acks_number, compression=Compression.from_name(compression))
        try:
            if values:
                _send([os.fsencode(value) for value in values], parse, producer, topic, partition, tally)
            else:
                _send_lines(sys.stdin.buffer, parse, producer, topic, partition, tally)
        finally:
            _report(topic, tally, format)


class LineParser:
    """Builds a record from one line or argument."""

    def __init__(
        self,
        *,
        key: bytes | None,
        separator: bytes | None,
        null: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        timestamp_ms: int | None,
    ) -> None:
        self._key = key
        self._separator = separator
        self._null = null
        self._headers = headers
        self._timestamp_ms = timestamp_ms
        self._number = 0

    def __call__(self, line: bytes, now_ms: int) -> Record:
        self._number += 1
        key, value = self._key, line
        if self._separator is not None:
            key, found, value = line.partition(self._separator)
            if not found:
                separator = os.fsdecode(self._separator)
                raise UserError(
                    f"Record {self._number} has no key separator {separator!r}. Correct the line or --key-separator."
                )
        timestamp = now_ms if self._timestamp_ms is None else self._timestamp_ms
        return Record(key, None if value == self._null else value, timestamp, self._headers)


class Tally:
    """Counts the stored records by partition, with their first and last offset."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[int]] = {}

    def add(self, stored: Stored) -> None:
        last = stored.base_offset + stored.record_count - 1 if stored.base_offset >= 0 else -1
        entry = self.partitions.setdefault(stored.partition.partition, [0, stored.base_offset, last])
        entry[0] += stored.record_count
        entry[2] = max(entry[2], last)

    @property
    def records(self) -> int:
        return sum(count for count, _, _ in self.partitions.values())


def _send(
    lines: list[bytes], parse: LineParser, producer: Producer, topic: str, partition: int | None, tally: Tally
) -> None:
    now_ms = time.time_ns() // 1_000_000
    for line in lines:
        producer.add(topic, parse(line, now_ms), partition)
    for stored in producer.flush():
        tally.add(stored)


def _send_lines(
    source: IO[bytes], parse: LineParser, producer: Producer, topic: str, partition: int | None, tally: Tally
) -> None:
    """Send the lines of each read before the next read, so that no line waits for a later one."""
    if is_terminal(source):
        say(f"Enter one record per line for topic {topic}. Press Ctrl-D to finish.")
    with progress(topic, _size_of(source), unit="bytes", wanted=not is_terminal(source)) as advance:
        for lines in read_lines(source, advance):
            _send(lines, parse, producer, topic, partition, tally)


def read_lines(source: IO[bytes], advance: Advance) -> Iterator[list[bytes]]:
    """Yield the lines of each read, without line endings; the last line needs none."""
    rest = b""
    while chunk := source.read1(READ_BYTES):  # type: ignore[attr-defined]
        advance(len(chunk))
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise UserError(f"A line is longer than {LINE_BYTES_MAX} bytes. Split it, or use another client.")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _size_of(source: IO[bytes]) -> int | None:
    """Return the size of a regular file, or None for a pipe."""
    try:
        found = os.fstat(source.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _report(topic: str, tally: Tally, format: OutputFormat) -> None:
    """Report the stored records, also after a failure."""
    partitions = sorted(tally.partitions.items())
    if format is OutputFormat.JSON:
        print_json(
            {
                "topic": topic,
                "records": tally.records,
                "partitions": [
                    {"partition": number, "records": count, "first_offset": first, "last_offset": last}
                    for number, (count, first, last) in partitions
                ],
            }
        )
        return
    noun = "record" if tally.records == 1 else "records"
    where = ", ".join(f"partition {number} {_offsets(first, last)}" for number, (_, first, last) in partitions[:8])
    more = f", and {len(partitions) - 8} more" if len(partitions) > 8 else ""
    say(f"Sent {tally.records:,} {noun} to {topic}" + (f" ({where}{more})." if where else "."))


def _offsets(first: int, last: int) -> str:
    if first < 0:
        return "unacknowledged"
    return f"offset {first}" if first == last else f"offsets {first}-{last}"
