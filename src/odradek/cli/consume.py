"""`odradek consume`: print the records of a topic, without a consumer group."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from odradek.base.ids import TopicPartition
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Timeout, open_cluster
from odradek.client.admin import LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumed, Consumer
from odradek.client.errors import UnknownPartition
from odradek.client.positions import start_positions
from odradek.client.record_text import RecordFormat, RecordWriter, parse_shown
from odradek.core.security.resources import Operation
from odradek.text.progress import Advance, progress
from odradek.text.terminal import is_terminal, say

# How long a broker may hold a Fetch request while there are no new records. Ctrl-C works at any time.
WAIT_MS = 1000


class Isolation(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-f",
            metavar="POSITION",
            help="Start position: beginning, end, an offset, -N (last N records of each partition) or an ISO 8601 "
            "timestamp.",
        ),
    ] = "beginning",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Maximum number of records.")] = None,
    follow: Annotated[bool, typer.Option(help="Wait for new records, or stop at the end of the topic.")] = True,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Partition to read. Repeatable; default: all.")
    ] = None,
    show: Annotated[
        str,
        typer.Option(
            metavar="FIELDS",
            help="Comma-separated fields to print before each value: key, headers, partition, offset, timestamp.",
        ),
    ] = "",
    format: Annotated[
        RecordFormat, typer.Option("--format", help="Output format of keys and values.")
    ] = RecordFormat.TEXT,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="Isolation level for transactional records.")
    ] = Isolation.READ_UNCOMMITTED,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Print the records of a topic."""
    committed = isolation is Isolation.READ_COMMITTED
    writer = RecordWriter(sys.stdout.buffer, format, parse_shown(show), on_terminal=is_terminal(sys.stdout))
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        partitions = _partitions(cluster, topic, partition)
        positions = start_positions(Admin(cluster), partitions, start, read_committed=committed)
        consumer = Consumer(cluster, positions, read_committed=committed)
        if follow:
            _print_records(_poll_forever(consumer), writer, count)
            return
        ends = Admin(cluster).offsets(dict.fromkeys(partitions, LATEST), read_committed=committed)
        total = sum(max(0, ends[one] - positions[one]) for one in partitions)
        with progress(topic, total, unit="records", wanted=not is_terminal(sys.stdout)) as advance:
            _print_records(_poll_until(consumer, ends), writer, count, advance)
    if total == 0:
        say(f"No records to read in topic {topic}.")


def _partitions(cluster: Cluster, topic: str, numbers: list[int] | None) -> list[TopicPartition]:
    layout = cluster.retry("looking up the topic", lambda: cluster.topics([topic], purpose=Operation.READ))[topic]
    count = len(layout.partitions)
    for number in numbers or ():
        if number >= count:
            raise UnknownPartition(topic, number, count)
    return [TopicPartition(topic, number) for number in (dict.fromkeys(numbers) if numbers else range(count))]


def _poll_forever(consumer: Consumer) -> Iterator[list[Consumed]]:
    while True:
        yield consumer.poll(wait_ms=WAIT_MS)


def _poll_until(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> Iterator[list[Consumed]]:
    """Yield the records before the given end offsets; later records are not waited for."""
    while consumer.positions:
        for one in [one for one, position in consumer.positions.items() if position >= ends[one]]:
            consumer.drop(one)
        if consumer.positions:
            yield [item for item in consumer.poll(wait_ms=WAIT_MS) if item.record.offset < ends[item.partition]]


def _print_records(
    polls: Iterable[list[Consumed]], writer: RecordWriter, count: int | None, advance: Advance | None = None
) -> None:
    """Print the records of each poll before the next poll starts."""
    left = count
    for polled in polls:
        shown = polled if left is None else polled[:left]
        writer.write(shown)
        if advance is not None:
            advance(len(shown))
        if left is not None:
            left -= len(shown)
            if left == 0:
                return
