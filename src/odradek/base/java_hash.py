"""Java's string hash, by which Kafka selects partitions of internal topics and orders its maps."""

from functools import lru_cache
from typing import Final

# The same groups and producers recur.
CACHED_MAX: Final = 4096


def string_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned 32-bit number."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (code * 31 + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return code


@lru_cache(maxsize=CACHED_MAX)
def partition_of(text: str, partition_count: int) -> int:
    """The partition of an internal topic for a group ID or transactional ID."""
    code = string_hash(text)
    magnitude = code if code < 1 << 31 else (1 << 32) - code
    # Java cannot negate the smallest integer.
    return 0 if magnitude == 1 << 31 else magnitude % partition_count
