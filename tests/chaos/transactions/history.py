"""Transactions of clients with their outcomes, and what read_committed consumers received.

There are two topics with the same number of partitions: writers write transactions across the partitions of the ledger,
and copiers copy every record of the ledger to the copies, in transactions that include their offsets. A place is a
partition of one of the topics. A record is identified by its writer, the number of the writer's transaction and its
index in the transaction. Its value contains all three, and a copy also contains the value of its source.
"""

import threading
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

NO_SOURCE: Final = -1
RECORDS_MAX: Final = 256
"""Maximum number of records in one transaction."""

_INDEX_BITS: Final = 8
_NUMBER_BITS: Final = 32


class Outcome(IntEnum):
    UNKNOWN = 0
    """The writer requested a commit without learning the result: all records are visible, or none."""
    COMMITTED = 1
    ABORTED = 2
    """Aborted, or the writer never requested a commit."""


def record_code(writer: int, number: int, index: int) -> int:
    return (writer << _NUMBER_BITS | number) << _INDEX_BITS | index


def writer_of(code: int) -> int:
    return code >> _INDEX_BITS + _NUMBER_BITS


def number_of(code: int) -> int:
    return code >> _INDEX_BITS & (1 << _NUMBER_BITS) - 1


def index_of(code: int) -> int:
    return code & (1 << _INDEX_BITS) - 1


def record_value(writer: int, number: int, index: int, place: int, source: bytes = b"") -> bytes:
    """`source` is the value of the record of which this one is a copy."""
    return b"%d %d %d %d " % (writer, number, index, place) + source


def parsed(value: bytes, place: int) -> tuple[int, int] | None:
    """Returns the codes of the record and its source; None if the record does not belong to this place."""
    words = value.split(b" ")
    if len(words) not in (5, 9) or not all(word.isdigit() for word in words[:-1]) or int(words[3]) != place:
        return None
    code = record_code(int(words[0]), int(words[1]), int(words[2]))
    return code, record_code(int(words[4]), int(words[5]), int(words[6])) if len(words) == 9 else NO_SOURCE


@dataclass(slots=True)
class Transaction:
    places: Sequence[int]
    """The places of its records, by index."""
    begun_at_s: float
    ended_at_s: float = float("inf")
    outcome: Outcome = Outcome.ABORTED


class Reads:
    """The records that one consumer received from one place, in order of arrival."""

    __slots__ = ("codes", "offsets", "sources")

    def __init__(self) -> None:
        self.offsets: Final = array("q")
        self.codes: Final = array("q")
        self.sources: Final = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, code: int, source: int) -> None:
        self.sources.append(source)
        self.codes.append(code)
        self.offsets.append(offset)


@dataclass
class TransactionHistory:
    """Each writer and each consumer appends to its own lists, so several threads may append concurrently."""

    partitions: int
    """Number of partitions of each topic."""
    writers: list[str] = field(default_factory=list)
    """Names, including copiers; a writer's number is its index."""
    copiers: set[int] = field(default_factory=set)
    """Writers that copy the records of the others."""
    transactions: list[list[Transaction]] = field(default_factory=list)
    """By writer and number."""
    reads: defaultdict[tuple[str, int], Reads] = field(default_factory=lambda: defaultdict(Reads))
    """Reads during the faults, by consumer and place."""
    final: defaultdict[int, Reads] = field(default_factory=lambda: defaultdict(Reads))
    """The final read by a new consumer, by place."""
    foreign_records: list[str] = field(default_factory=list)
    client_errors: list[str] = field(default_factory=list)
    copied_up_to: dict[int, int] = field(default_factory=dict)
    """The offset that the copiers have committed at the end, by place of the ledger."""
    copies: dict[int, dict[int, str]] = field(default_factory=dict)
    """Digest of the log on disk, by place and node."""
    replaced: int = 0
    """Producers replaced by a new one with the same transactional ID after a fatal error."""
    hung: int = 0
    """Producers replaced because a call did not return in time."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def committed(self) -> int:
        return sum(one.outcome is Outcome.COMMITTED for its in self.transactions for one in its)

    @property
    def places(self) -> range:
        return range(2 * self.partitions)

    @property
    def ledger(self) -> range:
        return range(self.partitions)

    def copy_of(self, place: int) -> int:
        """The place of the copies for a place of the ledger."""
        return self.partitions + place

    def new_writer(self, name: str, *, copies: bool = False) -> int:
        self.writers.append(name)
        if copies:
            self.copiers.add(len(self.writers) - 1)
        self.transactions.append([])
        return len(self.writers) - 1

    def new_consumer(self, name: str) -> None:
        for place in self.places:
            self.reads[name, place] = Reads()

    def begin(self, writer: int, places: Sequence[int], at_s: float) -> int:
        """Returns the transaction's number. It counts as aborted until its writer requests a commit."""
        self.transactions[writer].append(Transaction(places, at_s))
        return len(self.transactions[writer]) - 1

    def request_commit(self, writer: int, number: int) -> None:
        self.transactions[writer][number].outcome = Outcome.UNKNOWN

    def end(self, writer: int, number: int, outcome: Outcome, at_s: float) -> None:
        transaction = self.transactions[writer][number]
        transaction.outcome, transaction.ended_at_s = outcome, at_s

    def replace(self) -> None:
        with self._lock:
            self.replaced += 1

    def hang(self) -> None:
        with self._lock:
            self.hung += 1

    def read(self, consumer: str, place: int, offset: int, value: bytes) -> None:
        self._add(self.reads[consumer, place], consumer, place, offset, value)

    def read_finally(self, place: int, offset: int, value: bytes) -> None:
        self._add(self.final[place], "the final read", place, offset, value)

    def _add(self, reads: Reads, reader: str, place: int, offset: int, value: bytes) -> None:
        if (found := parsed(value, place)) is None:
            self.foreign_records.append(f"{reader} read {value[:60]!r} at offset {offset} of {self.name_of(place)}")
        else:
            reads.add(offset, *found)

    def name_of(self, place: int) -> str:
        topic = "the ledger" if place in self.ledger else "the copies"
        return f"partition {place % self.partitions} of {topic}"
