"""Rows for the list of topics and for one topic."""

from collections.abc import Sequence
from enum import StrEnum

from odradek.base.ids import TopicPartition
from odradek.client.config_description import DescribedConfig
from odradek.client.layout import PartitionLayout, TopicLayout
from odradek.client.traffic import Rates
from odradek.console.queries.topics import PartitionOffsets, Readers, TopicLags
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Cell, Column, Page, Row, Tone, inert, link_to, page_of
from odradek.text.amounts import format_bytes

DELETE = "Delete"

COLUMNS = (
    Column("topic", "Topic"),
    Column("state", "State"),
    Column("partitions", "Partitions", is_number=True),
    Column("replicas", "Replicas", is_number=True),
    Column("size", "Size", is_number=True),
    Column("stored", "Including replicas", is_number=True),
    Column("bytes_in", "Bytes in/s", is_number=True),
    Column("bytes_out", "Bytes out/s", is_number=True),
    Column("lag", "Consumer lag", is_number=True),
)

PARTITION_COLUMNS = (
    Column("partition", "Partition"),
    Column("state", "State"),
    Column("leader", "Leader", is_number=True),
    Column("replicas", "Replicas"),
    Column("isr", "In sync"),
    Column("earliest", "Start offset", is_number=True),
    Column("latest", "End offset", is_number=True),
    Column("records", "Offsets", is_number=True),
    Column("size", "Size", is_number=True),
)

CONFIG_COLUMNS = (Column("name", "Config"), Column("value", "Value"), Column("default", "Default"))

GROUP_COLUMNS = (
    Column("group", "Group"),
    Column("state", "State"),
    Column("members", "Members", is_number=True),
    Column("lag", "Lag", is_number=True),
)


class Order(StrEnum):
    NAME = "name"
    SIZE = "size"
    PARTITIONS = "partitions"


def topic_page(
    snapshot: ClusterSnapshot, lags: TopicLags | None, *, search: str, with_internal: bool, order: Order, page: int
) -> Page[Row]:
    """Builds rows for one page only, as there may be ten thousand topics. Lags load after the rest."""
    wanted = search.strip().lower()
    found = [
        topic
        for topic in snapshot.topics.values()
        if wanted in topic.name.lower() and (with_internal or not topic.is_internal)
    ]
    sizes = snapshot.sizes_of_topics if order is Order.SIZE else {}
    match order:
        case Order.SIZE:
            found.sort(key=lambda topic: (-sizes.get(topic.name, (0, 0))[0], topic.name))
        case Order.PARTITIONS:
            found.sort(key=lambda topic: (-len(topic.partitions), topic.name))
        case Order.NAME:
            found.sort(key=lambda topic: topic.name)
    part = page_of(found, page)
    rows = [_topic_row(snapshot, topic, lags) for topic in part.items]
    return Page(items=rows, number=part.number, count=part.count, total=part.total)


def topic_state(snapshot: ClusterSnapshot, topic: TopicLayout) -> Cell:
    offline = sum(one.leader < 0 for one in topic.partitions)
    under = sum(len(one.isr) < len(one.replicas) for one in topic.partitions)
    below = sum(len(one.isr) < snapshot.needed_in_sync(topic.name, one) for one in topic.partitions)
    if offline:
        return Cell(f"{offline} offline", tone=Tone.BAD)
    if below:
        return Cell(f"{below} below min ISR", tone=Tone.BAD)
    if under:
        return Cell(f"{under} under-replicated", tone=Tone.WARNING)
    return Cell("in sync", tone=Tone.GOOD)


def replication_factor(topic: TopicLayout) -> str:
    counts = sorted({len(one.replicas) for one in topic.partitions})
    return " to ".join(map(str, counts if len(counts) < 3 else (counts[0], counts[-1])))


def partition_page(
    snapshot: ClusterSnapshot, topic: TopicLayout, offsets: PartitionOffsets | None, page: int
) -> Page[Row]:
    part = page_of(topic.partitions, page)
    rows = [_partition_row(snapshot, topic.name, one, offsets) for one in part.items]
    return Page(items=rows, number=part.number, count=part.count, total=part.total)


def config_rows(configs: Sequence[DescribedConfig]) -> list[Row]:
    """Configs set on the topic itself."""
    return [
        Row(
            one.name,
            {
                "name": inert(one.name),
                "value": "hidden" if one.is_sensitive else inert(one.value or ""),
                "default": "unknown" if one.default is None else inert(one.default),
            },
        )
        for one in configs
        if one.is_own
    ]


def reader_rows(readers: Readers) -> list[Row]:
    """Sorted by lag, largest first."""
    rows = []
    for group in readers.groups:
        lags = [max(0, readers.ends[one] - offset) for one, offset in group.committed.items() if one in readers.ends]
        cells: dict[str, Cell | str] = {
            "group": Cell(inert(group.id), link_to("groups", "one", id=group.id)),
            "state": inert(group.state),
            "members": f"{group.members:,}",
            "lag": f"{sum(lags):,}",
        }
        rows.append((-sum(lags), Row(group.id, cells)))
    return [row for _, row in sorted(rows, key=lambda item: (item[0], item[1].key))]


def _topic_row(snapshot: ClusterSnapshot, topic: TopicLayout, lags: TopicLags | None) -> Row:
    size, stored = snapshot.sizes_of_topics.get(topic.name, (0, 0))
    rates = rates_of(snapshot, topic)
    return Row(
        topic.name,
        {
            "topic": Cell(inert(topic.name), link_to("topics", topic.name)),
            "state": topic_state(snapshot, topic),
            "partitions": f"{len(topic.partitions):,}",
            "replicas": replication_factor(topic),
            "size": format_bytes(size),
            "stored": format_bytes(stored),
            "bytes_in": "unknown" if rates is None else format_bytes(rates.bytes_in),
            "bytes_out": "unknown" if rates is None else format_bytes(rates.bytes_out),
            "lag": _lag_of(lags, topic.name),
        },
        () if topic.is_internal else (DELETE,),
    )


def _lag_of(lags: TopicLags | None, topic: str) -> str:
    if lags is None:
        return "…"
    found = lags.of_topics.get(topic)
    return "no consumer groups" if found is None else f"{found:,}"


def lags_sentence(lags: TopicLags) -> str:
    return f"Lag includes the first {lags.queried:,} of {lags.of:,} groups." if lags.queried < lags.of else ""


def rates_phrase(snapshot: ClusterSnapshot, topic: TopicLayout) -> str:
    rates = rates_of(snapshot, topic)
    if rates is None:
        return ""
    return f", {format_bytes(rates.bytes_in)}/s written, {format_bytes(rates.bytes_out)}/s read"


def rates_of(snapshot: ClusterSnapshot, topic: TopicLayout) -> Rates | None:
    """None if no broker reports traffic."""
    if not snapshot.traffic.rates:
        return None
    names = [TopicPartition(topic.name, one.id) for one in topic.partitions]
    held = snapshot.traffic.rates.values()
    return sum((rates[name] for rates in held for name in names if name in rates), start=Rates())


def _partition_row(
    snapshot: ClusterSnapshot, topic: str, one: PartitionLayout, offsets: PartitionOffsets | None
) -> Row:
    name = TopicPartition(topic, one.id)
    earliest = offsets.earliest.get(name) if offsets else None
    latest = offsets.latest.get(name) if offsets else None
    held = None if earliest is None or latest is None else latest - earliest
    return Row(
        str(one.id),
        {
            "partition": Cell(str(one.id), link_to("topics", topic, "messages", partition=one.id)),
            "state": partition_state(one, snapshot.needed_in_sync(topic, one)),
            "leader": "none" if one.leader < 0 else str(one.leader),
            "replicas": ", ".join(map(str, one.replicas)),
            "isr": ", ".join(map(str, one.isr)),
            "earliest": _offset(earliest),
            "latest": _offset(latest),
            "records": _offset(held),
            "size": format_bytes(snapshot.survey.size_of(name, one)),
        },
    )


def partition_state(one: PartitionLayout, min_isr: int) -> Cell:
    if one.leader < 0:
        return Cell("offline", tone=Tone.BAD)
    if len(one.isr) < min_isr:
        return Cell(f"{len(one.isr)} of min {min_isr} in sync", tone=Tone.BAD)
    if len(one.isr) < len(one.replicas):
        return Cell(f"{len(one.isr)} of {len(one.replicas)} in sync", tone=Tone.WARNING)
    return Cell("in sync", tone=Tone.GOOD)


def _offset(value: int | None) -> str:
    return "…" if value is None else f"{value:,}"
