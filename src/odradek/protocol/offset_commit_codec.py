"""OffsetCommit's usual answer, every offset taken, in bytes without the detour over its declaration.

Groups commit all day, and hardly ever is one refused. Whatever has an error in it is left to the codec of all messages.
"""

import struct
from collections.abc import Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.group_commands import TopicErrors
from odradek.base.ids import ZERO_UUID

FIRST_WITH_THROTTLE: Final = 3
FIRST_FLEXIBLE: Final = 8
FIRST_BY_TOPIC_ID: Final = 10

_NOT_THROTTLED: Final = bytes(4)
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ih")
_FLEXIBLE_PARTITION: Final = struct.Struct(">ihB")
# A compact array or string of so many has a length of one byte.
_ONE_BYTE_MAX: Final = 126


def all_committed(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    """None where something was refused, or so much is told that its lengths take more than a byte."""
    return _flexible(topics, version) if version >= FIRST_FLEXIBLE else _legacy(topics, version)


def _flexible(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    if len(topics) > _ONE_BYTE_MAX:
        return None
    out = bytearray(_NOT_THROTTLED)
    out.append(len(topics) + 1)
    none = ErrorCode.none
    for topic in topics:
        if version >= FIRST_BY_TOPIC_ID:
            out += (topic.topic_id or ZERO_UUID).bytes
        else:
            name = topic.topic.encode()
            if len(name) > _ONE_BYTE_MAX:
                return None
            out.append(len(name) + 1)
            out += name
        partitions = topic.partitions
        if len(partitions) > _ONE_BYTE_MAX:
            return None
        out.append(len(partitions) + 1)
        for partition, error in partitions:
            if error is not none:
                return None
            out += _FLEXIBLE_PARTITION.pack(partition, 0, 0)
        out.append(0)
    out.append(0)
    return bytes(out)


def _legacy(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    out = bytearray(_NOT_THROTTLED if version >= FIRST_WITH_THROTTLE else b"")
    out += _COUNT.pack(len(topics))
    for topic in topics:
        name = topic.topic.encode()
        out += _LENGTH.pack(len(name))
        out += name
        out += _COUNT.pack(len(topic.partitions))
        for partition, error in topic.partitions:
            if error is not ErrorCode.none:
                return None
            out += _PARTITION.pack(partition, 0)
    return bytes(out)
