"""Plans an offset reset: resolves a target to one offset per partition. Commits nothing.

As in kafka-consumer-groups, an offset outside of the log becomes the nearest valid one, with a remark.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.groups import Offsets

NO_SUCH_RECORD: Final = -1


class CannotReset(Exception):
    """The target cannot be applied to one of the partitions. The message states the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    offsets: Offsets
    remarks: tuple[str, ...] = ()
    """Sentences about partitions whose offset differs from the target."""


# Called with the partitions to reset and the group's committed offsets.
ResetTarget = Callable[[Admin, Collection[TopicPartition], Offsets], ResetPlan]


def to_earliest(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    return ResetPlan(offsets=admin.offsets(dict.fromkeys(partitions, EARLIEST)))


def to_latest(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    return ResetPlan(offsets=admin.offsets(dict.fromkeys(partitions, LATEST)))


def to_current(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    """Keep committed offsets; partitions without one are reset to the latest offset."""
    without = [one for one in partitions if one not in committed]
    return ResetPlan(
        offsets={one: committed[one] for one in partitions if one in committed}
        | admin.offsets(dict.fromkeys(without, LATEST))
    )


def to_offset(offset: int) -> ResetTarget:
    def target(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        return _clamp_to_log(admin, dict.fromkeys(partitions, offset))

    return target


def shift_by(count: int) -> ResetTarget:
    def target(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        for one in sorted(partitions):
            if one not in committed:
                raise CannotReset(f"cannot shift {one}, which has no committed offset")
        return _clamp_to_log(admin, {one: committed[one] + count for one in partitions})

    return target


def to_time(timestamp_ms: int) -> ResetTarget:
    def target(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        found = admin.offsets(dict.fromkeys(partitions, max(0, timestamp_ms)))
        later = sorted(one for one, offset in found.items() if offset == NO_SUCH_RECORD)
        return ResetPlan(
            offsets=found | admin.offsets(dict.fromkeys(later, LATEST)),
            remarks=tuple(f"{one} has no record at or after that time and is reset to its end." for one in later),
        )

    return target


def to_each(offsets: Mapping[TopicPartition, int]) -> ResetTarget:
    """Reset each partition to its own offset."""

    def target(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        return _clamp_to_log(admin, offsets)

    return target


def _clamp_to_log(admin: Admin, offsets: Mapping[TopicPartition, int]) -> ResetPlan:
    earliest = admin.offsets(dict.fromkeys(offsets, EARLIEST))
    latest = admin.offsets(dict.fromkeys(offsets, LATEST))
    found: Offsets = {}
    remarks = []
    for one, offset in sorted(offsets.items()):
        found[one] = min(max(offset, earliest[one]), latest[one])
        if found[one] != offset:
            bound = f"starts at {earliest[one]}" if found[one] > offset else f"ends at {latest[one]}"
            remarks.append(f"{one} {bound} and is reset to that offset instead of {offset}.")
    return ResetPlan(offsets=found, remarks=tuple(remarks))
