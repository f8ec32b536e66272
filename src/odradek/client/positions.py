"""Resolves a `--from` option to the start offset of each partition."""

import re
from collections.abc import Sequence

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.text.errors import UserError
from odradek.text.times import parse_time_ms


def start_positions(
    admin: Admin, partitions: Sequence[TopicPartition], where: str, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """Return the first offset to read of each partition."""
    if where == "beginning":
        return admin.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = admin.offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    if where == "end":
        return ends
    if re.fullmatch(r"\d{1,18}", where, re.ASCII):
        return dict.fromkeys(partitions, int(where))
    if re.fullmatch(r"-\d{1,18}", where, re.ASCII):
        starts = admin.offsets(dict.fromkeys(partitions, EARLIEST))
        return {one: max(starts[one], ends[one] + int(where)) for one in partitions}
    if where.isalpha():
        raise UserError(
            f"--from {where!r} is not a position. Use beginning, end, an offset, -10 or 2026-01-31T12:00:00Z."
        )
    found = admin.offsets(dict.fromkeys(partitions, parse_time_ms(where, "--from")))
    # A partition without a record at or after that time is read from its end.
    return {one: found[one] if found[one] >= 0 else ends[one] for one in partitions}
