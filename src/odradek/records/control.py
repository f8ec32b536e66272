"""Control records: transaction markers, and the control records of KRaft.

The key contains a version and the type, the value is a small message. The classes define Kafka's encoding of the
values. This module does not interpret the records.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import ClassVar
from uuid import UUID

from kio.serial.errors import SerialError

from odradek.base.message_walk import checked_reader
from odradek.base.message_writer import message_writer
from odradek.base.record_form import NestedForm, RecordForm, form
from odradek.base.values import named_value
from odradek.records.batch import NO_SEQUENCE
from odradek.records.builder import build_batch
from odradek.records.record import InvalidRecords, Record

_KEY = Struct(">hh")
_END_TXN_MARKER = Struct(">hi")
CURRENT_KEY_VERSION = 0
CURRENT_MARKER_VERSION = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlMessage(RecordForm):
    """Base of the structured values. Each starts with its version."""

    __slots__ = ()
    CONTROL_TYPE: ClassVar[ControlType]
    version: int


@named_value
class Voter(NestedForm):
    voter_id: int = field(metadata=form("int32"))
    voter_directory_id: UUID | None = field(metadata=form("uuid"))


@named_value
class VoterById(NestedForm):
    voter_id: int = field(metadata=form("int32"))


@named_value
class LeaderChange(ControlMessage):
    """The first record of a leader epoch; voters have directory IDs (kraft.version 1)."""

    CONTROL_TYPE: ClassVar = ControlType.LEADER_CHANGE
    version: int = field(default=1, metadata=form("int16"))
    leader_id: int = field(metadata=form("int32"))
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]


@named_value
class LeaderChangeV0(ControlMessage):
    """The same for kraft.version 0: voters have only IDs."""

    CONTROL_TYPE: ClassVar = ControlType.LEADER_CHANGE
    version: int = field(default=0, metadata=form("int16"))
    leader_id: int = field(metadata=form("int32"))
    voters: tuple[VoterById, ...]
    granting_voters: tuple[VoterById, ...]


@named_value
class SnapshotHeader(ControlMessage):
    CONTROL_TYPE: ClassVar = ControlType.SNAPSHOT_HEADER
    version: int = field(default=0, metadata=form("int16"))
    last_contained_log_timestamp: int = field(metadata=form("int64"))


@named_value
class SnapshotFooter(ControlMessage):
    CONTROL_TYPE: ClassVar = ControlType.SNAPSHOT_FOOTER
    version: int = field(default=0, metadata=form("int16"))


@named_value
class KRaftVersion(ControlMessage):
    CONTROL_TYPE: ClassVar = ControlType.KRAFT_VERSION
    version: int = field(default=0, metadata=form("int16"))
    kraft_version: int = field(metadata=form("int16"))


@named_value
class VoterEndpoint(NestedForm):
    name: str = field(metadata=form("string"))
    host: str = field(metadata=form("string"))
    port: int = field(metadata=form("uint16"))


@named_value
class KRaftVersionRange(NestedForm):
    min_supported_version: int = field(metadata=form("int16"))
    max_supported_version: int = field(metadata=form("int16"))


@named_value
class VoterRegistration(NestedForm):
    voter_id: int = field(metadata=form("int32"))
    voter_directory_id: UUID | None = field(metadata=form("uuid"))
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_feature: KRaftVersionRange


@named_value
class Voters(ControlMessage):
    CONTROL_TYPE: ClassVar = ControlType.KRAFT_VOTERS
    version: int = field(default=0, metadata=form("int16"))
    voters: tuple[VoterRegistration, ...]


@named_value
class EndTransactionMarker:
    """Ends a producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int
    version: int = CURRENT_MARKER_VERSION


_MESSAGE_TYPES: dict[ControlType, tuple[type[ControlMessage], ...]] = {
    ControlType.LEADER_CHANGE: (LeaderChangeV0, LeaderChange),
    ControlType.SNAPSHOT_HEADER: (SnapshotHeader,),
    ControlType.SNAPSHOT_FOOTER: (SnapshotFooter,),
    ControlType.KRAFT_VERSION: (KRaftVersion,),
    ControlType.KRAFT_VOTERS: (Voters,),
}


def control_type(key: bytes | None) -> ControlType | None:
    """The type in a control record's key; None for an unknown type, which a later release may have added."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecords("A control record's key has fewer than 4 bytes")
    version, number = _KEY.unpack_from(key)
    if version < CURRENT_KEY_VERSION:
        raise InvalidRecords(f"A control record's key has version {version}")
    return ControlType(number) if number in ControlType.__members__.values() else None


def encode_control(message: ControlMessage | EndTransactionMarker, timestamp: int) -> Record:
    if isinstance(message, EndTransactionMarker):
        kind = ControlType.COMMIT if message.committed else ControlType.ABORT
        value = _END_TXN_MARKER.pack(message.version, message.coordinator_epoch)
    else:
        kind = message.CONTROL_TYPE
        out = bytearray()
        message_writer(_MESSAGE_TYPES[kind][_known_version(kind, message.version)])(out, message)
        value = bytes(out)
    return Record(_KEY.pack(CURRENT_KEY_VERSION, kind), value, timestamp)


def decode_control(record: Record) -> ControlMessage | EndTransactionMarker | None:
    """None for an unknown type: readers skip it."""
    kind = control_type(record.key)
    if kind is None:
        return None
    value = record.value or b""
    try:
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
            return EndTransactionMarker(
                committed=kind is ControlType.COMMIT, coordinator_epoch=coordinator_epoch, version=version
            )
        return _reader(kind, _known_version(kind, int.from_bytes(value[:2], "big")))(value, 0)
    except (struct_error, SerialError) as error:
        raise InvalidRecords(f"A control record of type {kind.name} cannot be read: {error}") from error


def build_control_batch(
    messages: Sequence[ControlMessage], *, base_offset: int, leader_epoch: int, timestamp: int
) -> bytes:
    """A batch of KRaft control records: no producer, never compressed."""
    records = [encode_control(message, timestamp) for message in messages]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)


def build_end_transaction(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    return build_batch(
        [encode_control(marker, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )


def _known_version(kind: ControlType, version: int) -> int:
    """Later versions only add fields at the end, so they are read as the newest known version."""
    return min(version, len(_MESSAGE_TYPES[kind]) - 1)


@cache
def _reader(kind: ControlType, version: int) -> Callable[[bytes, int], ControlMessage]:
    return checked_reader(_MESSAGE_TYPES[kind][version])
