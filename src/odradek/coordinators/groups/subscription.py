"""The one thing that a coordinator reads of what consumers tell each other: the topics they subscribe to.

Every version of the consumers' subscription begins as version 0 does, so only that is read.
"""

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_HEAD: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_NO_DATA: Final = -1


class UnreadableSubscription(ValueError):
    """Somebody calls himself a consumer, and is not."""


def subscribed_topics(metadata: bytes) -> set[str]:
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or count < 0:
            raise UnreadableSubscription(f"version {version}, {count} topics")
        position = _HEAD.size
        topics = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            end = position + _LENGTH.size + length
            if length < 0 or end > len(metadata):
                raise UnreadableSubscription(f"a topic's name of {length} bytes")
            topics.add(metadata[position + _LENGTH.size : end].decode())
            position = end
        (size,) = _SIZE.unpack_from(metadata, position)
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreadableSubscription(str(error)) from error
    if size < _NO_DATA or position + _SIZE.size + max(size, 0) > len(metadata):
        raise UnreadableSubscription(f"user data of {size} bytes")
    return topics
