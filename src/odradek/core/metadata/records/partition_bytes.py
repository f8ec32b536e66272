"""The bytes of a PartitionRecord without kio: topics of thousands of partitions are written in one go, on the loop, and
millions of partitions are read at a node's start.

Only records without tagged fields and without a reassignment under way, which is how nearly all partitions are;
`codec` takes care of the others. What repeats from partition to partition, the ids of brokers and directories, comes
back as the same objects: a million partitions then need little more memory than their differences.
"""

from functools import cache, lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final
from uuid import UUID

from odradek.core.metadata.records.topics import PartitionRecord

_FRAME: Final = b"\x01\x03"
_FRAMES: Final = {version: _FRAME + bytes((version,)) for version in (1, 2)}
_HEAD_BYTES: Final = 23
_HEAD: Final = Struct(">3xi16s")
_LEADER_AND_EPOCHS: Final = Struct(">iii")
_ID_BYTES: Final = 4
_UUID_BYTES: Final = 16
_NO_DIRECTORY: Final = bytes(_UUID_BYTES)
# Lengths are written plus one.
_EMPTY: Final = 1
# Of an array, so that its length fits one byte.
_ARRAY_MAX: Final = 126
_SHARED_MAX: Final = 1 << 15


@cache
def _layout(replicas: int, isr: int, directories: int) -> Struct:
    return Struct(f">3si16sB{replicas}iB{isr}iBBiiiB{f'{_UUID_BYTES}s' * directories}B")


def encode_plain(record: PartitionRecord, version: int) -> bytes | None:
    """None if the record is not plain."""
    replicas, isr, directories = record.replicas, record.isr, record.directories
    if (
        version not in _FRAMES
        or record.removing_replicas
        or record.adding_replicas
        or record.leader_recovery_state
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or max(len(replicas), len(isr), len(directories)) > _ARRAY_MAX
    ):
        return None
    return _layout(len(replicas), len(isr), len(directories)).pack(
        _FRAMES[version],
        record.partition_id,
        record.topic_id.bytes,
        len(replicas) + 1,
        *replicas,
        len(isr) + 1,
        *isr,
        _EMPTY,
        _EMPTY,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        len(directories) + 1,
        *[_NO_DIRECTORY if one is None else one.bytes for one in directories],
        0,
    )


def decode_plain(data: bytes) -> PartitionRecord | None:
    """From a whole value, frame and all. None if that is not a plain partition, or not even a whole one."""
    if not data.startswith(_FRAME) or len(data) < _HEAD_BYTES or data[2] not in (1, 2):
        return None
    try:
        partition_id, topic_id = _HEAD.unpack_from(data)
        # A null array has length -1 here, and the sum of lengths does not come out right.
        isr_at = _HEAD_BYTES + 1 + _ID_BYTES * (data[_HEAD_BYTES] - 1)
        changes_at = isr_at + 1 + _ID_BYTES * (data[isr_at] - 1)
        directories_at = changes_at + 2 + _LEADER_AND_EPOCHS.size
        end = directories_at + 1 + _UUID_BYTES * (data[directories_at] - 1)
        leader, leader_epoch, partition_epoch = _LEADER_AND_EPOCHS.unpack_from(data, changes_at + 2)
    except (IndexError, struct_error):
        return None
    if (
        end + 1 != len(data)
        or data[end] != 0
        or data[changes_at] != _EMPTY
        or data[changes_at + 1] != _EMPTY
        or not 0 < data[_HEAD_BYTES] <= _ARRAY_MAX + 1
        or not 0 < data[isr_at] <= _ARRAY_MAX + 1
        or not 0 < data[directories_at] <= _ARRAY_MAX + 1
    ):
        return None
    topic = _shared_uuid(topic_id)
    if topic is None:
        return None
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic,
        replicas=_shared_ids(data[_HEAD_BYTES + 1 : isr_at]),
        isr=_shared_ids(data[isr_at + 1 : changes_at]),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=_shared_uuids(data[directories_at + 1 : end]),
    )


@lru_cache(_SHARED_MAX)
def _shared_ids(data: bytes) -> tuple[int, ...]:
    return Struct(f">{len(data) // _ID_BYTES}i").unpack(data)


@lru_cache(_SHARED_MAX)
def _shared_uuids(data: bytes) -> tuple[UUID | None, ...]:
    return tuple(_shared_uuid(data[at : at + _UUID_BYTES]) for at in range(0, len(data), _UUID_BYTES))


@lru_cache(_SHARED_MAX)
def _shared_uuid(data: bytes) -> UUID | None:
    return None if data == _NO_DIRECTORY else UUID(bytes=data)
