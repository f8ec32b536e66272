"""Invalid and hostile subscriptions of classic consumers."""

import struct

import pytest

from odradek.core.groups.subscription import (
    NAMES_MAX,
    PARTITIONS_MAX,
    UnreadableSubscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
)

_END = struct.pack(">i", -1)


def names(count: int) -> bytes:
    return struct.pack(">i", count) + b"\0\0" * count


def test_number_of_topics_in_a_subscription_is_limited() -> None:
    """Each takes two bytes: a request of the maximum size would block the event loop for minutes."""
    assert subscribed_topics(b"\0\0" + names(NAMES_MAX) + _END) == {""}
    for read in (subscribed_topics, read_subscription):
        with pytest.raises(UnreadableSubscription, match="names"):
            read(b"\0\0" + names(NAMES_MAX + 1) + _END)


def test_topics_without_owned_partitions_count_toward_the_limit() -> None:
    owned = struct.pack(">i", NAMES_MAX) + b"\0\0\0\0\0\0" * NAMES_MAX
    with pytest.raises(UnreadableSubscription, match="names"):
        read_subscription(b"\0\1" + names(1) + _END + owned)


def test_number_of_owned_partitions_is_limited() -> None:
    assert read_assignment(write_assignment([("a", range(5))], 1)).partitions == {"a": (0, 1, 2, 3, 4)}
    with pytest.raises(UnreadableSubscription, match="partitions"):
        read_assignment(write_assignment([("a", range(PARTITIONS_MAX)), ("b", (0,))], 1))


@pytest.mark.parametrize("count", [2, 2**31 - 1, -1])
def test_truncated_partition_list_is_unreadable(count: int) -> None:
    with pytest.raises(UnreadableSubscription):
        read_assignment(struct.pack(">hih", 0, 1, 1) + b"a" + struct.pack(">ii", count, 7))
