"""Hand-written codec for Fetch responses: a list of parts, so that record batches are not copied. Those that are still
in files are read while the response is sent.

Versions 4 to 18; 12 and later are flexible, 13 and later identify topics by ID.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.varints import write_unsigned_varint
from odradek.core.replication.epochs import EpochEnd
from odradek.wire.streamed_response import Part, StreamedResponse

FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_ID: Final = 13
FIRST_WITH_SESSIONS: Final = 7
FIRST_WITH_LEADER_HINTS: Final = 16
NO_PREFERRED_REPLICA: Final = -1

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_AND_OFFSET: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
# Flexible, with topic IDs: throttle, error, session; one topic; one partition without an error, up to its records.
_ONE_PARTITION: Final = struct.Struct(">ihiB16sBihqqqBi")
# The size of a tagged field includes the end of its own tagged fields.
_EPOCH_AND_OFFSET_TAG_BYTES: Final = _EPOCH_AND_OFFSET.size + 1
_LEADER_TAG_BYTES: Final = _LEADER.size + 1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class CurrentLeader(NamedTuple):
    """The leader that the client should use instead (KIP-951)."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class FetchedPartition(NamedTuple):
    partition: int
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # None: the client reads uncommitted records, and needs no aborted transactions.
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = NO_PREFERRED_REPLICA
    records: Part = b""
    diverging: EpochEnd | None = None
    current_leader: CurrentLeader | None = None


class FetchedTopic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: list[FetchedPartition]


def write_fetch_response(
    topics: Sequence[FetchedTopic],
    version: int,
    *,
    error: ErrorCode = ErrorCode.none,
    session_id: int = 0,
    throttle_ms: int = 0,
    leaders: Sequence[LeaderEndpoint] = (),
) -> "list[bytes] | StreamedResponse":
    flexible = version >= FIRST_FLEXIBLE
    if version >= FIRST_WITH_TOPIC_ID and len(topics) == 1 and len(topics[0].partitions) == 1:
        ((_, topic_id, (only,)),) = topics
        is_plain = not (only.error or only.aborted or only.diverging or only.current_leader)
        if is_plain and only.preferred_read_replica == NO_PREFERRED_REPLICA and not (error or throttle_ms or leaders):
            return write_one_partition(
                topic_id.bytes,
                only.partition,
                only.high_watermark,
                only.last_stable_offset,
                only.log_start_offset,
                only.records,
                session_id=session_id,
                has_aborted=only.aborted is not None,
            )
    parts: list[Part] = []
    out = bytearray(_I32.pack(throttle_ms))
    if version >= FIRST_WITH_SESSIONS:
        out += _SESSION.pack(error, session_id)
    out += _length(len(topics), flexible)
    for topic in topics:
        if version >= FIRST_WITH_TOPIC_ID:
            out += topic.topic_id.bytes
        else:
            raw = topic.name.encode()
            out += (write_unsigned_varint(len(raw) + 1) if flexible else _I16.pack(len(raw))) + raw
        out += _length(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _write_partition_head(out, partition, version, flexible)
            if partition.records:
                parts.append(bytes(out))
                parts.append(partition.records)
                out.clear()
            if flexible:
                out += _partition_tags(partition)
        if flexible:
            out.append(0)
    if flexible:
        out += _leader_tags(leaders) if version >= FIRST_WITH_LEADER_HINTS else b"\0"
    parts.append(bytes(out))
    return _as_response(parts)


def write_one_partition(
    topic_id: bytes,
    partition: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    records: Part,
    *,
    session_id: int,
    has_aborted: bool,
) -> "list[bytes] | StreamedResponse":
    """The most frequent response, in version 13 or later: one partition, no error, no aborted transactions."""
    aborted = 1 if has_aborted else 0
    head = _ONE_PARTITION.pack(
        *(0, 0, session_id, 2, topic_id, 2, partition, 0),
        *(high_watermark, last_stable_offset, log_start_offset, aborted, NO_PREFERRED_REPLICA),
    )
    # After the records: no tagged fields of the partition, of the topic, of the response.
    return _as_response([head + write_unsigned_varint(len(records) + 1), records, b"\0\0\0"])


def _as_response(parts: list[Part]) -> "list[bytes] | StreamedResponse":
    in_memory = [part for part in parts if part.__class__ is bytes]
    return in_memory if len(in_memory) == len(parts) else StreamedResponse(parts)


def _partition_tags(partition: FetchedPartition) -> bytes:
    tags = [
        bytes((number, _EPOCH_AND_OFFSET_TAG_BYTES if number == 0 else _LEADER_TAG_BYTES)) + packed + b"\0"
        for number, packed in (
            (0, partition.diverging and _EPOCH_AND_OFFSET.pack(*partition.diverging)),
            (1, partition.current_leader and _LEADER.pack(*partition.current_leader)),
        )
        if packed
    ]
    return bytes((len(tags),)) + b"".join(tags)


def _leader_tags(leaders: Sequence[LeaderEndpoint]) -> bytes:
    if not leaders:
        return b"\0"
    out = bytearray(write_unsigned_varint(len(leaders) + 1))
    for leader in leaders:
        host = leader.host.encode()
        out += _I32.pack(leader.node_id) + write_unsigned_varint(len(host) + 1) + host + _I32.pack(leader.port)
        rack = None if leader.rack is None else leader.rack.encode()
        out += b"\0" if rack is None else write_unsigned_varint(len(rack) + 1) + rack
        out.append(0)
    return b"\1\0" + write_unsigned_varint(len(out)) + bytes(out)


def _write_partition_head(out: bytearray, partition: FetchedPartition, version: int, flexible: bool) -> None:
    out += _PARTITION.pack(partition.partition, partition.error, partition.high_watermark, partition.last_stable_offset)
    if version >= 5:
        out += _I64.pack(partition.log_start_offset)
    if partition.aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        out += _length(len(partition.aborted), flexible)
        for aborted in partition.aborted:
            out += _ABORTED.pack(aborted.producer_id, aborted.first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += _I32.pack(partition.preferred_read_replica)
    out += _length(len(partition.records), flexible)


def _length(length: int, flexible: bool) -> bytes:
    return write_unsigned_varint(length + 1) if flexible else _I32.pack(length)
