"""Hand-written codec for Metadata responses, versions 0 to 13: fast enough for the topics of a large cluster."""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.wire.headers import write_unsigned_varint

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
    """`error` is that of the whole request; before version 13 only topics have one."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray()
    if version >= FIRST_WITH_THROTTLE_TIME:
        out += b"\0\0\0\0"
    out += _length(len(brokers), flexible)
    for broker in brokers:
        _write_broker(out, broker, version, flexible)
    if version >= FIRST_WITH_CLUSTER_ID:
        out += _string(cluster_id, flexible)
    if version >= FIRST_WITH_CONTROLLER:
        out += _I32.pack(controller_id)
    out += _length(len(topics), flexible)
    for topic in topics:
        _write_topic(out, topic, version, flexible)
    if FIRST_WITH_OPERATIONS <= version <= LAST_WITH_CLUSTER_OPERATIONS:
        out += _I32.pack(cluster_operations)
    if version >= FIRST_WITH_ERROR:
        out += _I16.pack(error)
    if flexible:
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


def _write_topic(out: bytearray, topic: MetadataTopic, version: int, flexible: bool) -> None:
    out += _I16.pack(topic.error)
    out += _string(topic.name, flexible)
    if version >= FIRST_WITH_TOPIC_ID:
        out += (topic.topic_id or ZERO_UUID).bytes
    if version >= FIRST_WITH_CONTROLLER:
        out.append(topic.is_internal)
    out += _length(len(topic.partitions), flexible)
    _write_partitions(out, topic.partitions, version, flexible)
    if version >= FIRST_WITH_OPERATIONS:
        out += _I32.pack(topic.operations)
    if flexible:
        out.append(0)


def _write_partitions(out: bytearray, partitions: Iterable[MetadataPartition], version: int, flexible: bool) -> None:
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
