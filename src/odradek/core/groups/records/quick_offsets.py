"""A fast codec for the current format of committed offsets, without the declared schema.

Most records of the log are committed offsets, so they decide how fast a coordinator writes and loads. The general codec
handles all other formats, and unreadable records.
"""

import struct
from typing import Final
from uuid import UUID

from odradek.core.groups.records.offsets import OffsetCommitKey, OffsetCommitValue

OFFSET_KEY_VERSION: Final = OffsetCommitKey.KEY_VERSION
OFFSET_VALUE_VERSION: Final = 4

_LENGTH: Final = struct.Struct(">h")
_VERSION_AND_LENGTH: Final = struct.Struct(">hh")
_INDEX: Final = struct.Struct(">i")
_BEFORE_METADATA: Final = struct.Struct(">hqi")
_TIMESTAMP: Final = struct.Struct(">q")
_ONE_BYTE_MAX: Final = 127
# One tagged field, the first, of sixteen bytes.
_TOPIC_ID: Final = b"\x01\x00\x10"
_NO_TOPIC_ID: Final = b"\x00"


def encode_offset_key(key: OffsetCommitKey) -> bytes:
    group, topic = key.group.encode(), key.topic.encode()
    return b"".join(
        (
            _VERSION_AND_LENGTH.pack(OFFSET_KEY_VERSION, len(group)),
            group,
            _LENGTH.pack(len(topic)),
            topic,
            _INDEX.pack(key.partition),
        )
    )


def encode_offset_value(value: OffsetCommitValue) -> bytes | None:
    """None for long metadata, whose length needs more than one byte."""
    metadata = value.metadata.encode()
    if len(metadata) >= _ONE_BYTE_MAX:
        return None
    topic_id = value.topic_id
    return b"".join(
        (
            _BEFORE_METADATA.pack(OFFSET_VALUE_VERSION, value.offset, value.leader_epoch),
            bytes((len(metadata) + 1,)),
            metadata,
            _TIMESTAMP.pack(value.commit_timestamp),
            _NO_TOPIC_ID if topic_id is None else _TOPIC_ID + topic_id.bytes,
        )
    )


def decode_offset_key(key: bytes) -> OffsetCommitKey | None:
    """`key` includes the version. None: the general codec has to decode it."""
    try:
        _, length = _VERSION_AND_LENGTH.unpack_from(key)
        end = 4 + length
        (topic_length,) = _LENGTH.unpack_from(key, end)
        at = end + 2 + topic_length
        if length < 0 or topic_length < 0 or at + 4 != len(key):
            return None
        return OffsetCommitKey(
            group=key[4:end].decode(), topic=key[end + 2 : at].decode(), partition=_INDEX.unpack_from(key, at)[0]
        )
    except (struct.error, UnicodeDecodeError):
        return None


def decode_offset_value(value: bytes) -> OffsetCommitValue | None:
    """As `decode_offset_key`."""
    try:
        version, offset, leader_epoch = _BEFORE_METADATA.unpack_from(value)
        length = value[14]
        end = 14 + length
        if version != OFFSET_VALUE_VERSION or not 0 < length <= _ONE_BYTE_MAX:
            return None
        (commit_timestamp,) = _TIMESTAMP.unpack_from(value, end)
        tagged = value[end + 8 :]
        if len(tagged) == 19 and tagged.startswith(_TOPIC_ID):
            # The zero id stands for none, and is never written.
            topic_id = UUID(bytes=tagged[3:]) if any(tagged[3:]) else None
        elif tagged == _NO_TOPIC_ID:
            topic_id = None
        else:
            return None
        return OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=value[15:end].decode(),
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        )
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
