"""What clients did in transactions and were told of them, and what committed readers found.

There are two topics of as many partitions: the ledger, to which writers write transactions across partitions, and the
copies, to which copiers bring every record of the ledger in transactions that hold their offsets too. A place is a
partition of one of them. A record is known by its writer, the number of that writer's transaction and its index there;
it says so itself in its value, and a copy also says what it is a copy of.
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
"""In one transaction."""

_INDEX_BITS: Final = 8
_NUMBER_BITS: Final = 32


class Outcome(IntEnum):
    UNKNOWN = 0
    """The writer asked for a commit and nobody knows what came of it: all of it is there, or nothing."""
    COMMITTED = 1
    ABORTED = 2
    """The answer was that it is aborted, or its writer never asked for a commit."""


def record_code(writer: int, number: int, index: int) -> int:
    return (writer << _NUMBER_BITS | number) << _INDEX_BITS | index


def writer_of(code: int) -> int:
    return code >> _INDEX_BITS + _NUMBER_BITS


def number_of(code: int) -> int:
    return code >> _INDEX_BITS & (1 << _NUMBER_BITS) - 1


def index_of(code: int) -> int:
    return code & (1 << _INDEX_BITS) - 1


def record_value(writer: int, number: int, index: int, place: int, source: bytes = b"") -> bytes:
    """`source`: the value of the record that this one is a copy of."""
    return b"%d %d %d %d " % (writer, number, index, place) + source


def parsed(value: bytes, place: int) -> tuple[int, int] | None:
    """The record's code and its source's; None if it does not belong to this place, or is no record of ours."""
    words = value.split(b" ")
    if len(words) not in (5, 9) or not all(word.isdigit() for word in words[:-1]) or int(words[3]) != place:
        return None
    code = record_code(int(words[0]), int(words[1]), int(words[2]))
    return code, record_code(int(words[4]), int(words[5]), int(words[6])) if len(words) == 9 else NO_SOURCE


@dataclass(slots=True)
class Transaction:
    places: Sequence[int]
    """Where its records go, by index."""
    begun_at_s: float
    ended_at_s: float = float("inf")
    outcome: Outcome = Outcome.ABORTED


class Reads:
    """What one consumer got of one place, in the order in which it came."""

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
    """Each writer and each consumer adds to lists of its own: several threads may do so at once."""

    partitions: int
    """Of each of the two topics."""
    writers: list[str] = field(default_factory=list)
    """Names, copiers' too; a writer's number is its place here."""
    copiers: set[int] = field(default_factory=set)
    """Those among them that write what the others have written."""
    transactions: list[list[Transaction]] = field(default_factory=list)
    """By writer and number."""
    reads: defaultdict[tuple[str, int], Reads] = field(default_factory=lambda: defaultdict(Reads))
    """By consumer and place: of those that read while the nemesis was at work."""
    final: defaultdict[int, Reads] = field(default_factory=lambda: defaultdict(Reads))
    """By place: what a new consumer found from beginning to end when all was over."""
    strangers: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    copies: dict[int, dict[int, str]] = field(default_factory=dict)
    """By place and node: a digest of the log as it stands on that node's disk."""
    replaced: int = 0
    """Producers that were of no use any more and got a successor of the same transactional id."""
    hung: int = 0
    """Of these, those whose client did not come back from a call in time."""
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
        """Where the records of a place of the ledger are copied to."""
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
        """Its number. Until more is known it counts as one whose writer did not ask for a commit."""
        self.transactions[writer].append(Transaction(places, at_s))
        return len(self.transactions[writer]) - 1

    def ask_for_commit(self, writer: int, number: int) -> None:
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
            self.strangers.append(f"{reader} read {value[:60]!r} at offset {offset} of {self.name_of(place)}")
        else:
            reads.add(offset, *found)

    def name_of(self, place: int) -> str:
        topic = "the ledger" if place in self.ledger else "the copies"
        return f"partition {place % self.partitions} of {topic}"
