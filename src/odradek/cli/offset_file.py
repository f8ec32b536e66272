"""Reads and writes the CSV files of offsets that kafka-consumer-groups exports and resets from.

A line is `topic,partition,offset` for one group, or `group,topic,partition,offset` for any number of groups.
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
    """Write one line per partition, with the group's name only if there are several groups."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, of_group in offsets.items():
        for partition, offset in sorted(of_group.items()):
            writer.writerow((*((group,) if len(offsets) > 1 else ()), *partition, offset))
    return out.getvalue()


def read_offsets(path: Path, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Read the offsets of these groups. Raises UserError for any invalid line, so a file is never half applied."""
    found: dict[str, dict[TopicPartition, int]] = {group: {} for group in groups}
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(
            f"{str(path)!r} is not a CSV file ({error}). Write topic,partition,offset on each line."
        ) from None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            group, partition, offset = _read_row([field.strip() for field in row], groups)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}.") from None
        if group not in found:
            continue
        if partition in found[group]:
            raise UserError(f"{path}:{number}: duplicate partition {partition}. Remove one of the lines.")
        found[group][partition] = offset
    for group, offsets in found.items():
        if not offsets:
            raise UserError(f"{str(path)!r} contains no offsets of group {group!r}. Add them or choose another group.")
    return found


def _read_row(row: Sequence[str], groups: Sequence[str]) -> tuple[str, TopicPartition, int]:
    match row:
        case [topic, partition, offset] if len(groups) == 1:
            group = groups[0]
        case [group, topic, partition, offset]:
            pass
        case _:
            form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise ValueError(f"expected {form}, found {','.join(row)!r}")
    if not topic:
        raise ValueError("the topic name is empty")
    if not (partition.isascii() and partition.isdigit() and int(partition) < 2**31):
        raise ValueError(f"{partition!r} is not a partition number")
    if not (offset.isascii() and offset.removeprefix("-").isdigit() and abs(int(offset)) <= _OFFSET_MAX):
        raise ValueError(f"{offset!r} is not an offset")
    return group, TopicPartition(topic, int(partition)), int(offset)
