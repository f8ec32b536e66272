"""Java's hash of a string, by which Kafka finds the partition of an internal topic, and walks over its maps."""

from functools import lru_cache
from typing import Final

# Those of the same groups and producers are asked for again and again.
REMEMBERED_MAX: Final = 4096


def string_hash(text: str) -> int:
    """As Java's `String.hashCode`, without its sign: 32 bits."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (code * 31 + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return code


@lru_cache(maxsize=REMEMBERED_MAX)
def partition_of(text: str, partition_count: int) -> int:
    """Of an internal topic, for a group's id or a transactional one."""
    code = string_hash(text)
    magnitude = code if code < 1 << 31 else (1 << 32) - code
    # The one number that Java cannot negate.
    return 0 if magnitude == 1 << 31 else magnitude % partition_count
