"""Hand-written codec for Metadata responses, versions 0 to 13: fast enough for the topics of a large cluster.

A response is written in pieces, so that the encoded topics can be kept for the next responses.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.base.varints import write_unsigned_varint

FIRST_WITH_CONTROLLER: Final = 1
FIRST_WITH_CLUSTER_ID: Final = 2
FIRST_WITH_THROTTLE_TIME: Final = 3
FIRST_WITH_OFFLINE_REPLICAS: Final = 5
FIRST_WITH_LEADER_EPOCH: Final = 7
FIRST_WITH_OPERATIONS: Final = 8
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_TOPIC_ID: Final = 10
LAST_WITH_CLUSTER_OPERATIONS: Final = 10
FIRST_WITH_ERROR: Final = 13
# A partition whose leader lacks the listener has another error from this version on.
FIRST_WITH_LISTENER_NOT_FOUND: Final = 6
_FIRST_OF_FORMS: Final = (
    FIRST_WITH_TOPIC_ID,
    FIRST_FLEXIBLE,
    FIRST_WITH_LEADER_EPOCH,
    FIRST_WITH_LISTENER_NOT_FOUND,
    FIRST_WITH_OFFLINE_REPLICAS,
    FIRST_WITH_CONTROLLER,
    0,
)

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">hii")
_PARTITION_WITH_EPOCH: Final = struct.Struct(">hiii")


class MetadataBroker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class MetadataPartition(NamedTuple):
    error: ErrorCode
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class MetadataTopic(NamedTuple):
    error: ErrorCode
    # None, from version 12 on: requested by an unknown topic ID.
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: Sequence[MetadataPartition]
    operations: int


def write_metadata_response(
    version: int,
    *,
    brokers: Sequence[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[MetadataTopic],
    cluster_operations: int,
    error: ErrorCode,
) -> bytes:
    """A whole response, from the pieces below. `error` is that of the whole request; before version 13 only topics
    have one."""
    pieces = [write_head(version, write_brokers(version, brokers), cluster_id, controller_id, len(topics))]
    for topic in topics:
        pieces += (write_topic(version, topic), write_topic_end(version, topic.operations))
    pieces.append(write_tail(version, cluster_operations, error))
    return b"".join(pieces)


def write_brokers(version: int, brokers: Sequence[MetadataBroker]) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(_length(len(brokers), flexible))
    for broker in brokers:
        _write_broker(out, broker, version, flexible)
    return bytes(out)


def write_head(version: int, brokers: bytes, cluster_id: str | None, controller_id: int, topic_count: int) -> bytes:
    """Everything before the first topic. `brokers` is written by `write_brokers`."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray()
    if version >= FIRST_WITH_THROTTLE_TIME:
        out += b"\0\0\0\0"
    out += brokers
    if version >= FIRST_WITH_CLUSTER_ID:
        out += _string(cluster_id, flexible)
    if version >= FIRST_WITH_CONTROLLER:
        out += _I32.pack(controller_id)
    out += _length(topic_count, flexible)
    return bytes(out)


def topic_form(version: int) -> int:
    """The first version in which `write_topic` encodes topics as in this one."""
    return next(first for first in _FIRST_OF_FORMS if first <= version)


def write_topic(version: int, topic: MetadataTopic) -> bytes:
    """A topic without the authorized operations, which depend on the client. `write_topic_end` completes it."""
    start = write_topic_start(
        version, topic.error, topic.name, topic.topic_id, topic.is_internal, len(topic.partitions)
    )
    return start + write_partitions(version, topic.partitions)


def write_topic_start(
    version: int, error: ErrorCode, name: str | None, topic_id: UUID | None, is_internal: bool, partition_count: int
) -> bytes:
    """A topic up to its first partition."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(_I16.pack(error))
    out += _string(name, flexible)
    if version >= FIRST_WITH_TOPIC_ID:
        out += (topic_id or ZERO_UUID).bytes
    if version >= FIRST_WITH_CONTROLLER:
        out.append(is_internal)
    out += _length(partition_count, flexible)
    return bytes(out)


def write_topic_end(version: int, operations: int) -> bytes:
    """What follows the last partition of a topic."""
    out = _I32.pack(operations) if version >= FIRST_WITH_OPERATIONS else b""
    return out + b"\0" if version >= FIRST_FLEXIBLE else out


def write_tail(version: int, cluster_operations: int, error: ErrorCode) -> bytes:
    """Everything after the last topic."""
    out = bytearray()
    if FIRST_WITH_OPERATIONS <= version <= LAST_WITH_CLUSTER_OPERATIONS:
        out += _I32.pack(cluster_operations)
    if version >= FIRST_WITH_ERROR:
        out += _I16.pack(error)
    if version >= FIRST_FLEXIBLE:
        out.append(0)
    return bytes(out)


def _write_broker(out: bytearray, broker: MetadataBroker, version: int, flexible: bool) -> None:
    out += _I32.pack(broker.node_id)
    out += _string(broker.host, flexible)
    out += _I32.pack(broker.port)
    if version >= FIRST_WITH_CONTROLLER:
        out += _string(broker.rack, flexible)
    if flexible:
        out.append(0)


def write_partitions(version: int, partitions: Iterable[MetadataPartition]) -> bytes:
    out = bytearray()
    flexible = version >= FIRST_FLEXIBLE
    with_epoch = version >= FIRST_WITH_LEADER_EPOCH
    with_offline = version >= FIRST_WITH_OFFLINE_REPLICAS
    for error, partition, leader_id, leader_epoch, replicas, isr, offline in partitions:
        if with_epoch:
            out += _PARTITION_WITH_EPOCH.pack(error, partition, leader_id, leader_epoch)
        else:
            out += _PARTITION.pack(error, partition, leader_id)
        out += _ids(replicas, flexible)
        out += _ids(isr, flexible)
        if with_offline:
            out += _ids(offline, flexible)
        if flexible:
            out.append(0)
    return bytes(out)


@lru_cache(maxsize=4096)
def _ids(brokers: tuple[int, ...], flexible: bool) -> bytes:
    # A cluster has far fewer replica sets than partitions.
    return _length(len(brokers), flexible) + struct.pack(f">{len(brokers)}i", *brokers)


def _length(length: int, flexible: bool) -> bytes:
    return write_unsigned_varint(length + 1) if flexible else _I32.pack(length)


def _string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    raw = text.encode()
    return (write_unsigned_varint(len(raw) + 1) if flexible else _I16.pack(len(raw))) + raw
