"""The bytes of a PartitionRecord without kio: a topic of thousands of partitions is written in one go, on the loop.

Only records without tagged fields, which is how partitions are created; `codec.encode` takes care of the others.
"""

from struct import Struct
from typing import Final

from .topics import PartitionRecord

_FRAME: Final = b"\x01\x03"
_PARTITION_ID: Final = Struct(">i")
_LEADER_AND_EPOCHS: Final = Struct(">iii")
_NO_DIRECTORY: Final = bytes(16)
# Of an array's length plus one: in one byte, as a varint.
_ARRAY_MAX: Final = 126
FIRST_WITH_DIRECTORIES: Final = 1


def encode_plain(record: PartitionRecord, version: int) -> bytes | None:
    """None if the record is not plain."""
    if (
        version < FIRST_WITH_DIRECTORIES
        or record.leader_recovery_state
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or len(record.replicas) > _ARRAY_MAX
    ):
        return None
    directories = record.directories
    return b"".join(
        (
            _FRAME,
            bytes((version,)),
            _PARTITION_ID.pack(record.partition_id),
            record.topic_id.bytes,
            _numbers(record.replicas),
            _numbers(record.isr),
            _numbers(record.removing_replicas),
            _numbers(record.adding_replicas),
            _LEADER_AND_EPOCHS.pack(record.leader, record.leader_epoch, record.partition_epoch),
            bytes((len(directories) + 1,)),
            *(_NO_DIRECTORY if one is None else one.bytes for one in directories),
            b"\0",
        )
    )


def _numbers(values: tuple[int, ...]) -> bytes:
    return bytes((len(values) + 1,)) + b"".join(map(_PARTITION_ID.pack, values))
