"""Offsets in a file: the CSV that kafka-consumer-groups exports and resets from.

A line is `topic,partition,offset` for one group, or `group,topic,partition,offset` for any number of them.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.text.errors import UserError

_OFFSET_MAX: Final = 2**63 - 1


def offsets_as_csv(offsets: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """With the groups' names only where there are several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, of_group in offsets.items():
        for partition, offset in sorted(of_group.items()):
            writer.writerow((*((group,) if len(offsets) > 1 else ()), *partition, offset))
    return out.getvalue()


def read_offsets(path: Path, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Of each of these groups. Raises UserError for any line that is wrong: half of a file is never carried out."""
    found: dict[str, dict[TopicPartition, int]] = {group: {} for group in groups}
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{str(path)!r} is not CSV ({error}): write topic,partition,offset in each line") from None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            group, partition, offset = _read_row([field.strip() for field in row], groups)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        if group not in found:
            continue
        if partition in found[group]:
            raise UserError(f"{path}:{number}: {partition} is there twice: leave one of them")
        found[group][partition] = offset
    for group, offsets in found.items():
        if not offsets:
            raise UserError(f"{str(path)!r} names no offset of group {group!r}")
    return found


def _read_row(row: Sequence[str], groups: Sequence[str]) -> tuple[str, TopicPartition, int]:
    match row:
        case [topic, partition, offset] if len(groups) == 1:
            group = groups[0]
        case [group, topic, partition, offset]:
            pass
        case _:
            form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise ValueError(f"{form} is expected, not {','.join(row)!r}")
    if not topic:
        raise ValueError("the topic has no name")
    if not (partition.isascii() and partition.isdigit() and int(partition) < 2**31):
        raise ValueError(f"{partition!r} is not the number of a partition")
    if not (offset.isascii() and offset.removeprefix("-").isdigit() and abs(int(offset)) <= _OFFSET_MAX):
        raise ValueError(f"{offset!r} is not an offset")
    return group, TopicPartition(topic, int(partition)), int(offset)
