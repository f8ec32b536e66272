"""Reads records of a topic for display, bounded in number, size and time."""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumed, Consumer
from odradek.client.errors import UnknownPartition
from odradek.console.actions.action import Refused
from odradek.console.queries.expression import Subject, parse
from odradek.core.security.resources import Operation
from odradek.records.record import Record

PAGE_MESSAGES: Final = 50
SCANNED_MAX: Final = 50_000
SCAN_S: Final = 4.0
TAIL_MAX: Final = 100
# Maximum bytes kept of a key, value or header; users can download whole values.
EXCERPT_BYTES: Final = 64 * 1024

WAIT_MS: Final = 300

Positions = Mapping[TopicPartition, int]


class Start(StrEnum):
    NEWEST = "newest"
    BEGINNING = "beginning"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    data: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    partition: TopicPartition
    offset: int
    timestamp_ms: int
    is_append_time: bool
    key: Excerpt | None
    value: Excerpt | None
    headers: tuple[tuple[str, Excerpt | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    topic: str
    partition: int | None = None
    """None means all partitions."""
    start: Start = Start.NEWEST
    at: int = 0
    """The offset, or the time in milliseconds."""
    search: str = ""
    expression: str = ""

    @property
    def has_filter(self) -> bool:
        return bool(self.search or self.expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    messages: tuple[Message, ...]
    scanned: int
    positions: Positions
    """Positions at which the next query resumes."""
    is_at_end: bool
    has_reached_limit: bool
    """The query reached its limit before the end."""


def find_messages(
    cluster: Cluster, wanted: Wanted, resume: Positions | None = None, clock: Callable[[], float] = time.monotonic
) -> Found:
    """Starts at the position in `wanted`, or resumes from an earlier result."""
    partitions = partitions_of(cluster, wanted)
    ends = Admin(cluster).offsets(dict.fromkeys(partitions, LATEST))
    positions = dict(resume) if resume is not None else start_of(Admin(cluster), wanted, ends)
    keeps_newest = wanted.start is Start.NEWEST and resume is None
    consumer = Consumer(cluster, {one: at for one, at in positions.items() if at < ends.get(one, 0)})
    passed = {one: at for one, at in positions.items() if one not in consumer.positions}
    kept: dict[TopicPartition, list[Message]] = {one: [] for one in partitions}
    holds = matcher_of(wanted)
    scanned = 0
    deadline = clock() + SCAN_S
    while consumer.positions and scanned < SCANNED_MAX and clock() < deadline:
        if not keeps_newest and sum(map(len, kept.values())) >= PAGE_MESSAGES:
            break
        for item in consumer.poll(wait_ms=WAIT_MS):
            if item.record.offset < ends[item.partition]:
                scanned += 1
                if holds(item):
                    kept[item.partition].append(message_of(item))
        for one in [one for one, at in consumer.positions.items() if at >= ends[one]]:
            passed[one] = consumer.positions[one]
            consumer.drop(one)
        if keeps_newest:
            kept = {one: held[-PAGE_MESSAGES:] for one, held in kept.items()}
    merged = list(heapq.merge(*kept.values(), key=lambda one: one.timestamp_ms))
    reached = {**passed, **consumer.positions}
    shown = merged[-PAGE_MESSAGES:] if keeps_newest else merged[:PAGE_MESSAGES]
    if not keeps_newest:
        for message in reversed(merged[PAGE_MESSAGES:]):
            reached[message.partition] = message.offset
    return Found(
        messages=tuple(reversed(shown) if keeps_newest else shown),
        scanned=scanned,
        positions=reached,
        is_at_end=all(at >= ends.get(one, 0) for one, at in reached.items()),
        has_reached_limit=bool(consumer.positions) and (scanned >= SCANNED_MAX or clock() >= deadline),
    )


def ends_of(cluster: Cluster, wanted: Wanted) -> Positions:
    return Admin(cluster).offsets(dict.fromkeys(partitions_of(cluster, wanted), LATEST))


def follow(cluster: Cluster, positions: Positions, wanted: Wanted) -> tuple[list[Message], Positions, int]:
    """Returns new records, the next positions, and the number of records left out."""
    consumer = Consumer(cluster, positions)
    arrived = consumer.poll(wait_ms=WAIT_MS)
    holds = matcher_of(wanted)
    found = [item for item in arrived if holds(item)]
    newest = sorted(found, key=lambda item: item.record.timestamp)[-TAIL_MAX:]
    return [message_of(item) for item in newest], dict(consumer.positions), len(arrived) - len(newest)


def whole_record(cluster: Cluster, partition: TopicPartition, offset: int) -> Record:
    consumer = Consumer(cluster, {partition: offset})
    for item in consumer.poll(wait_ms=WAIT_MS):
        if item.record.offset == offset:
            return item.record
    raise Refused(f"{partition} no longer has a record at offset {offset:,}: it was deleted or compacted.")


def partitions_of(cluster: Cluster, wanted: Wanted) -> list[TopicPartition]:
    found = cluster.retry("looking up the topic", lambda: cluster.topics([wanted.topic], purpose=Operation.READ))
    layout = found[wanted.topic]
    count = len(layout.partitions)
    if wanted.partition is None:
        # Skip partitions without a leader; the others stay readable.
        led = [TopicPartition(wanted.topic, one.id) for one in layout.partitions if one.leader >= 0]
        if not led:
            raise Refused(f"No partition of {wanted.topic} has a leader. Check the brokers.")
        return led
    if not 0 <= wanted.partition < count:
        raise UnknownPartition(wanted.topic, wanted.partition, count)
    return [TopicPartition(wanted.topic, wanted.partition)]


def start_of(admin: Admin, wanted: Wanted, ends: Positions) -> dict[TopicPartition, int]:
    earliest = admin.offsets(dict.fromkeys(ends, EARLIEST))
    match wanted.start:
        case Start.BEGINNING:
            return earliest
        case Start.OFFSET:
            return {one: min(max(wanted.at, earliest[one]), ends[one]) for one in ends}
        case Start.TIME:
            found = admin.offsets(dict.fromkeys(ends, wanted.at))
            return {one: found[one] if found[one] >= 0 else ends[one] for one in ends}
    # A filtered search for the newest records reads back more than one page.
    back = SCANNED_MAX // len(ends) if wanted.has_filter else PAGE_MESSAGES
    return {one: max(earliest[one], ends[one] - back) for one in ends}


def matcher_of(wanted: Wanted) -> Callable[[Consumed], bool]:
    """Raises InvalidExpression."""
    needle = wanted.search.encode().lower()
    if not wanted.expression.strip():
        return lambda item: _holds(item, needle)
    condition = parse(wanted.expression)
    return lambda item: _holds(item, needle) and condition(Subject(item.partition, item.record))


def _holds(item: Consumed, needle: bytes) -> bool:
    if not needle:
        return True
    record = item.record
    texts: Sequence[bytes | None] = (record.key, record.value, *(value for _, value in record.headers))
    return any(text is not None and needle in text.lower() for text in texts) or any(
        needle in name.encode().lower() for name, _ in record.headers
    )


def message_of(item: Consumed) -> Message:
    record = item.record
    return Message(
        partition=item.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        is_append_time=item.is_append_time,
        key=_excerpt(record.key),
        value=_excerpt(record.value),
        headers=tuple((name, _excerpt(value)) for name, value in record.headers),
    )


def _excerpt(data: bytes | None) -> Excerpt | None:
    return None if data is None else Excerpt(data=bytes(data[:EXCERPT_BYTES]), size=len(data))
