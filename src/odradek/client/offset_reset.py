"""Where a group shall go on: what is wished for, turned into one offset for each partition. Nothing is committed here.

As kafka-consumer-groups does it: offsets that are not in the log become the nearest that is, and that is remarked.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.groups import Offsets

NO_SUCH_RECORD: Final = -1


class CannotReset(Exception):
    """What is wished for has no meaning for one of the partitions; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    offsets: Offsets
    remarks: tuple[str, ...] = ()
    """Where it is not quite what was wished for."""


# Takes whoever knows the log, the partitions, and what the group has committed of any.
Wish = Callable[[Admin, Collection[TopicPartition], Offsets], ResetPlan]


def to_earliest(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    return ResetPlan(offsets=admin.offsets(dict.fromkeys(partitions, EARLIEST)))


def to_latest(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    return ResetPlan(offsets=admin.offsets(dict.fromkeys(partitions, LATEST)))


def to_current(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
    """What is committed, anew; the end where nothing is."""
    without = [one for one in partitions if one not in committed]
    return ResetPlan(
        offsets={one: committed[one] for one in partitions if one in committed}
        | admin.offsets(dict.fromkeys(without, LATEST))
    )


def to_offset(offset: int) -> Wish:
    def wish(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        return _within_the_log(admin, dict.fromkeys(partitions, offset))

    return wish


def shift_by(count: int) -> Wish:
    def wish(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        for one in sorted(partitions):
            if one not in committed:
                raise CannotReset(f"{one} cannot be shifted: the group has committed nothing of it")
        return _within_the_log(admin, {one: committed[one] + count for one in partitions})

    return wish


def to_time(timestamp_ms: int) -> Wish:
    def wish(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        found = admin.offsets(dict.fromkeys(partitions, max(0, timestamp_ms)))
        later = sorted(one for one, offset in found.items() if offset == NO_SUCH_RECORD)
        return ResetPlan(
            offsets=found | admin.offsets(dict.fromkeys(later, LATEST)),
            remarks=tuple(f"{one} has no record of that time or later: it is reset to the end" for one in later),
        )

    return wish


def to_each(offsets: Mapping[TopicPartition, int]) -> Wish:
    """To what is given for each partition; those that are not named stay."""

    def wish(admin: Admin, partitions: Collection[TopicPartition], committed: Offsets) -> ResetPlan:
        return _within_the_log(admin, offsets)

    return wish


def _within_the_log(admin: Admin, wanted: Mapping[TopicPartition, int]) -> ResetPlan:
    earliest = admin.offsets(dict.fromkeys(wanted, EARLIEST))
    latest = admin.offsets(dict.fromkeys(wanted, LATEST))
    found: Offsets = {}
    remarks = []
    for one, offset in sorted(wanted.items()):
        found[one] = min(max(offset, earliest[one]), latest[one])
        if found[one] != offset:
            bound = f"begins at {earliest[one]}" if found[one] > offset else f"ends at {latest[one]}"
            remarks.append(f"{one} {bound}: it is reset to there instead of {offset}")
    return ResetPlan(offsets=found, remarks=tuple(remarks))
