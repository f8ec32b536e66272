"""`read_topic`: a topic as a stream of Arrow record batches for Polars, DuckDB, pandas and other Arrow readers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike, fspath
from typing import Any, Final

import pyarrow as pa

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownPartition, UnknownTopic
from odradek.client.leases import LeaseCredentials
from odradek.core.security.resources import Operation
from odradek.pipelines.arrow.assembler import BATCH_BYTES, BATCH_ROWS, Assembler
from odradek.pipelines.arrow.brokers import PartitionFetch
from odradek.pipelines.arrow.leased_segments import LeaseHolder
from odradek.pipelines.arrow.payloads import select_payloads
from odradek.pipelines.arrow.schema import DEFAULT_COLUMNS, arrow_schema
from odradek.pipelines.arrow.segments import ReadOnlyDisk, open_partitions
from odradek.pipelines.arrow.sources import OffsetsNotThere, PartitionSource

TIMEOUT_S: Final = 30.0

Offsets = Mapping[int, int] | int | None
Directory = str | PathLike[str]


def read_topic(
    topic: str,
    *,
    bootstrap_servers: str | None = None,
    directory: Directory | Sequence[Directory] | None = None,
    columns: Iterable[str] = DEFAULT_COLUMNS,
    partitions: Iterable[int] | None = None,
    start: Offsets = None,
    end: Offsets = None,
    read_committed: bool = True,
    lease: tuple[str, str] | None = None,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """Return a pyarrow.RecordBatchReader over the current records of a topic, by partition and offset.

    Reads either from brokers (`bootstrap_servers`) or from the log directories of a stopped node (`directory`). `start`
    and `end` (exclusive) are offsets, for all partitions or by partition; the default is everything. With
    `read_committed`, aborted records are skipped and reading ends at the first open transaction. Control records are
    never returned.

    `lease` is the name and secret of a principal. With it, closed segments are read from the leaders' log directories
    if these are accessible, while the brokers run; the rest is fetched.

    Memory is limited to a few batches, whatever the size of the topic. Raises CorruptBatch or InvalidRecords for
    damaged data, and OffsetsNotThere for offsets that were deleted or do not exist yet.
    """
    schema = arrow_schema(columns)
    if (bootstrap_servers is None) == (directory is None):
        raise ValueError(
            "Set either bootstrap_servers, to read from brokers, or directory, to read from a stopped node."
        )
    if lease is not None and bootstrap_servers is None:
        raise ValueError("Brokers grant leases. Set bootstrap_servers together with lease.")
    wanted = None if partitions is None else tuple(dict.fromkeys(partitions))

    def batches() -> Iterator[Any]:
        with ExitStack() as held:
            ranges: list[tuple[PartitionSource, int, int]] = []
            if bootstrap_servers is not None:
                addresses = parse_bootstrap(bootstrap_servers)
                cluster = held.enter_context(Cluster(addresses, client_id="odradek-arrow", timeout_s=timeout_s))
                leases = None
                if lease is not None:
                    leases = LeaseHolder(cluster, LeaseCredentials(*lease), read_committed=read_committed)
                    held.callback(leases.close)
                for fetch in _open_fetches(cluster, topic, wanted, read_committed):
                    first, last = _range(fetch, start, end)
                    ranges.append((fetch if leases is None else leases.source(fetch, first, last), first, last))
            else:
                assert directory is not None
                sources = _open_directories(directory, topic, wanted, read_committed)
                ranges += [(source, *_range(source, start, end)) for source in sources]
            yield None
            for source, first, last in ranges:
                yield from record_batches(source, schema, first, last, rows_max=batch_rows, bytes_max=batch_bytes)

    reading = batches()
    # Raise errors now. Closing the generator releases connections and leases even if it is never read.
    next(reading)
    return pa.RecordBatchReader.from_batches(schema, reading)


def record_batches(
    source: PartitionSource,
    schema: Any,
    from_offset: int,
    to_offset: int,
    *,
    rows_max: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES,
) -> Iterator[Any]:
    """Yield the records of one partition within the offsets."""
    assembler = Assembler(
        schema,
        source.partition,
        from_offset=from_offset,
        to_offset=to_offset,
        rows_max=rows_max,
        bytes_max=bytes_max,
    )
    for chunk in source.chunks(from_offset, to_offset):
        for payload in select_payloads(
            chunk.data,
            chunk.headers,
            source.partition,
            from_offset=from_offset,
            to_offset=to_offset,
            aborted=chunk.aborted,
            is_checked=chunk.is_checked,
        ):
            yield from assembler.add(payload)
    yield from assembler.finish()


def _range(source: PartitionSource, start: Offsets, end: Offsets) -> tuple[int, int]:
    number = source.partition.partition
    first = start if isinstance(start, int) else (start or {}).get(number)
    last = end if isinstance(end, int) else (end or {}).get(number)
    if first is not None and first < source.earliest_offset:
        raise OffsetsNotThere(
            f"{source.partition} starts at offset {source.earliest_offset}. Offset {first} was deleted."
        )
    if last is not None and last > source.readable_offset:
        known = source.readable_offset
        raise OffsetsNotThere(f"{source.partition} is readable up to offset {known}, not up to {last}.")
    return (
        source.earliest_offset if first is None else first,
        source.end_offset if last is None else last,
    )


def _open_directories(
    directory: Directory | Sequence[Directory], topic: str, wanted: Sequence[int] | None, read_committed: bool
) -> Sequence[PartitionSource]:
    named = [directory] if isinstance(directory, str | PathLike) else directory
    found = open_partitions(ReadOnlyDisk(), [fspath(one) for one in named], topic, read_committed=read_committed)
    if not found:
        raise UnknownTopic(topic)
    for number in wanted or ():
        if number not in found:
            raise UnknownPartition(topic, number, len(found))
    return [found[number] for number in (sorted(found) if wanted is None else wanted)]


def _open_fetches(
    cluster: Cluster, topic: str, wanted: Sequence[int] | None, read_committed: bool
) -> Sequence[PartitionFetch]:
    layout = cluster.retry("looking up the topic", lambda: cluster.topics([topic], purpose=Operation.READ)[topic])
    count = len(layout.partitions)
    for number in wanted or ():
        if not 0 <= number < count:
            raise UnknownPartition(topic, number, count)
    named = [TopicPartition(topic, number) for number in (range(count) if wanted is None else wanted)]
    admin = Admin(cluster)
    earliest = admin.offsets(dict.fromkeys(named, EARLIEST))
    latest = admin.offsets(dict.fromkeys(named, LATEST), read_committed=read_committed)
    return [
        PartitionFetch(
            cluster,
            partition,
            earliest_offset=earliest[partition],
            end_offset=latest[partition],
            read_committed=read_committed,
            topic_id=layout.id,
        )
        for partition in named
    ]
