"""What clients sent and received during a run, compact enough for millions of records.

A record is identified by its producer and its sequence number among that producer's sends to one partition; its value
contains both. Times are seconds of the monotonic clock, which is the same for Java and Python.
"""

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

OPEN: Final = -1
"""Sent, outcome unknown."""
REJECTED: Final = -2
"""Sent, and the response says that the record is not stored."""

_SEQUENCE_BITS: Final = 40
_SEQUENCES: Final = (1 << _SEQUENCE_BITS) - 1


def record_code(producer: int, sequence: int) -> int:
    """Producer and sequence in one number."""
    return producer << _SEQUENCE_BITS | sequence


def producer_of(code: int) -> int:
    return code >> _SEQUENCE_BITS


def sequence_of(code: int) -> int:
    return code & _SEQUENCES


def record_value(producer: int, partition: int, sequence: int, size: int) -> bytes:
    return f"{producer} {partition} {sequence} ".encode().ljust(size, b".")


class Sends:
    """The sends of one producer to one partition, by sequence."""

    __slots__ = ("acknowledged", "begun_at_s", "ended_at_s", "outcomes")

    def __init__(self) -> None:
        self.acknowledged = 0
        self.begun_at_s: Final = array("d")
        self.ended_at_s: Final = array("d")
        self.outcomes: Final = array("q")
        """The acknowledged offset, OPEN or REJECTED."""

    def __len__(self) -> int:
        return len(self.outcomes)

    def begin(self, at_s: float) -> int:
        """Returns the sequence of the new record."""
        self.begun_at_s.append(at_s)
        self.ended_at_s.append(float("inf"))
        self.outcomes.append(OPEN)
        return len(self.outcomes) - 1

    def end(self, sequence: int, outcome: int, at_s: float) -> None:
        self.outcomes[sequence] = outcome
        self.ended_at_s[sequence] = at_s
        self.acknowledged += outcome >= 0


class Reads:
    """The records that one consumer received from one partition, in order of arrival."""

    __slots__ = ("codes", "offsets")

    def __init__(self) -> None:
        self.offsets: Final = array("q")
        self.codes: Final = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, code: int) -> None:
        self.offsets.append(offset)
        self.codes.append(code)


@dataclass
class History:
    """Each producer and each consumer appends to its own lists, so several threads may append concurrently."""

    partitions: int
    producers: list[str] = field(default_factory=list)
    """Names; a producer's number is its index."""
    repeating: set[int] = field(default_factory=set)
    """Producers that may resend a record without reporting it: the record may be duplicated and late."""
    renumbered: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Partition and code of records resent under a new producer epoch, with the number of times: no broker can detect
    that they were sent before.
    """
    epoch_changes: int = 0
    """Number of epoch bumps by clients."""
    sends: defaultdict[tuple[int, int], Sends] = field(default_factory=lambda: defaultdict(Sends))
    """By producer and partition."""
    reads: defaultdict[tuple[str, int], Reads] = field(default_factory=lambda: defaultdict(Reads))
    """Reads during the faults, by consumer and partition."""
    final: defaultdict[int, Reads] = field(default_factory=lambda: defaultdict(Reads))
    """The final read by a new consumer, by partition."""
    foreign_records: list[str] = field(default_factory=list)
    """Records that do not belong to the partition they were read from."""
    client_errors: list[str] = field(default_factory=list)
    """Errors that must not occur, for example a retrying producer that gave up."""
    copies: dict[int, dict[int, str]] = field(default_factory=dict)
    """Digest of the log on disk, by partition and node."""

    def new_producer(self, name: str, *, may_repeat: bool = False) -> int:
        self.producers.append(name)
        if may_repeat:
            self.repeating.add(len(self.producers) - 1)
        for partition in range(self.partitions):
            self.sends[len(self.producers) - 1, partition] = Sends()
        return len(self.producers) - 1

    def new_epoch(self, producer: int) -> None:
        """The sequence numbers restart: sends without a response may be stored already and sent again."""
        self.epoch_changes += 1
        for partition in range(self.partitions):
            sends = self.sends[producer, partition]
            for sequence in range(len(sends) - 1, -1, -1):
                if sends.ended_at_s[sequence] != float("inf"):
                    break
                self.renumbered[partition, record_code(producer, sequence)] += 1

    def repeats_max(self, partition: int, code: int) -> float:
        """Maximum number of duplicates of the record."""
        return float("inf") if producer_of(code) in self.repeating else self.renumbered[partition, code]

    def new_consumer(self, name: str) -> None:
        for partition in range(self.partitions):
            self.reads[name, partition] = Reads()

    @property
    def acknowledged(self) -> int:
        return sum(sends.acknowledged for sends in self.sends.values())

    def read(self, consumer: str, partition: int, offset: int, value: bytes) -> None:
        code = self._code(consumer, partition, offset, value)
        if code is not None:
            self.reads[consumer, partition].add(offset, code)

    def read_finally(self, partition: int, offset: int, value: bytes) -> None:
        code = self._code("the final read", partition, offset, value)
        if code is not None:
            self.final[partition].add(offset, code)

    def _code(self, consumer: str, partition: int, offset: int, value: bytes) -> int | None:
        words = value.split(b" ", 3)
        if len(words) == 4 and words[1] == b"%d" % partition and words[0].isdigit() and words[2].isdigit():
            return record_code(int(words[0]), int(words[2]))
        self.foreign_records.append(f"{consumer} read {value[:60]!r} at offset {offset} of partition {partition}")
        return None
