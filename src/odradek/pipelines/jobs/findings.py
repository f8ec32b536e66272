"""The result of an audit: counts by partition, and the faulty offsets. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.progress import Progress

# Further offsets are only counted.
OFFSETS_NAMED_MAX: Final = 10_000


class Fault(StrEnum):
    MISSING = "missing"
    """A record without a row or dead letter."""
    DOUBLE = "double"
    """A record with more than one row."""
    DIFFERENT = "different"
    """A row that does not match its record."""
    STRANGE = "strange"
    """A row of a record that is not in the topic."""

    @property
    def label(self) -> str:
        """The word for reports. The value is the name in JSON."""
        return _LABELS[self]


_LABELS: Final = {
    Fault.MISSING: "missing",
    Fault.DOUBLE: "duplicated",
    Fault.DIFFERENT: "different",
    Fault.STRANGE: "unexpected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFindings:
    """`end` is exclusive."""

    partition: int
    start: int
    end: int
    records: int
    rows: int
    dead_letters: int
    checksum: int
    """Of the records that should have rows."""
    rows_checksum: int
    faults: dict[Fault, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not any(self.faults.values()) and self.checksum == self.rows_checksum

    def to_json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "start": self.start,
            "end": self.end,
            "records": self.records,
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            "checksum": checksum_text(self.checksum),
            "rows_checksum": checksum_text(self.rows_checksum),
            **{fault: self.faults.get(fault, 0) for fault in Fault},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    partitions: tuple[PartitionFindings, ...]
    named: dict[TopicPartition, dict[Fault, list[int]]]
    """Offsets by fault, up to a maximum."""
    removed_rows: int = 0
    """Rows whose records retention has deleted, so that they cannot be compared."""

    @property
    def is_exact(self) -> bool:
        return all(one.is_exact for one in self.partitions)

    def count(self, fault: Fault) -> int:
        return sum(one.faults.get(fault, 0) for one in self.partitions)

    def sentences(self) -> Iterable[str]:
        """List the faulty offsets."""
        for partition, faults in sorted(self.named.items()):
            for fault, offsets in faults.items():
                total = next(
                    one.faults.get(fault, 0) for one in self.partitions if one.partition == partition.partition
                )
                more = f", and {total - len(offsets):,} more" if total > len(offsets) else ""
                yield f"{fault.label.capitalize()} in {partition}: offsets {ranges_text(offsets)}{more}"

    def faults_text(self) -> str:
        counts = {fault: self.count(fault) for fault in Fault}
        return ", ".join(f"{count:,} {fault.label}" for fault, count in counts.items() if count) or "checksums differ"

    def as_progress(self) -> Progress:
        """Return the counts in the form of a job's progress."""
        return Progress(
            batches=1,
            rows=sum(one.records for one in self.partitions),
            dead_letters=sum(one.dead_letters for one in self.partitions),
            rows_per_second=None,
            seconds_left=None,
            partitions=(),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "exact": self.is_exact,
            "removed_rows": self.removed_rows,
            "partitions": [one.to_json() for one in self.partitions],
            "faults": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "fault": fault,
                    "offsets": [list(one) for one in ranges(offsets)],
                }
                for partition, faults in sorted(self.named.items())
                for fault, offsets in faults.items()
            ],
        }


def fault_of(*, in_topic: bool, is_letter: bool, rows: int, is_same: bool) -> Fault | None:
    """Return the fault of one offset, if any."""
    if rows and not in_topic:
        return Fault.STRANGE
    if rows > 1:
        return Fault.DOUBLE
    if rows and not is_same:
        return Fault.DIFFERENT
    if in_topic and not rows and not is_letter:
        return Fault.MISSING
    return None


def ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last of each run of consecutive offsets."""
    found: list[tuple[int, int]] = []
    for offset in sorted(set(offsets)):
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def ranges_text(offsets: Sequence[int]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges(offsets))


def checksum_text(checksum: int) -> str:
    return f"{checksum & 0xFFFF_FFFF_FFFF_FFFF:016x}"
