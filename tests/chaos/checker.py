"""What a history of sends and reads says about a log that must not lose, repeat, reorder or invent anything.

Pure: a history in, anomalies out. In the manner of Jepsen's workload for Kafka, with the names used there where they
fit. Producers retry idempotently or not at all, so a record may be stored at most once, unless the history says that
its producer repeats it, and how often; there are no transactions, so offsets have no gaps.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from tests.chaos.history import REFUSED, History, Reads, Sends, producer_of, record_code, sequence_of


class Kind(StrEnum):
    LOST = "lost"
    """Acknowledged at an offset, and the final read went past it without the record."""
    UNSEEN = "unseen"
    """Acknowledged, and the final read ended before its offset."""
    VANISHED = "vanished"
    """A consumer had it; the final read did not."""
    DUPLICATE = "duplicate"
    """One record at two offsets."""
    INCONSISTENT = "inconsistent offset"
    """Two records at one offset."""
    REORDERED = "reordered"
    """Two records in the order in which their sends did not happen."""
    REFUSED_BUT_SEEN = "refused but seen"
    """The answer was that it is not stored and never will be."""
    ABORTED_READ = "aborted read"
    """Of a transaction that was aborted, or that nobody ever asked to commit."""
    TORN = "torn"
    """Some records of a transaction are there, and some are not."""
    MADE_UP = "made up"
    """Read, and never sent, or sent elsewhere."""
    SKIPPED = "skipped"
    """A consumer got an offset while the one before it had not come."""
    STEPPED_BACK = "stepped back"
    """A consumer got an offset again, or an earlier one."""
    STALLED = "stalled"
    """A consumer did not come to the end, though all was healed."""
    UNEQUAL_COPIES = "unequal copies"
    """Two replicas in sync differ in a byte."""
    COMPLAINT = "complaint"
    """A client was told what it never should have been told."""
    UNHEALED = "unhealed"
    """The cluster did not become whole in time after a fault had ended, or a node ended by itself. The run says so."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    text: str
    partition: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" + ("" if self.partition is None else f" (partition {self.partition})")


def check(history: History) -> list[Anomaly]:
    found = [Anomaly(Kind.MADE_UP, text) for text in history.strangers]
    found += [Anomaly(Kind.COMPLAINT, text) for text in history.complaints]
    for partition in range(history.partitions):
        view = _Partition(history, partition)
        for look in _LOOKS:
            found += look(view)
    return found


def excused(history: History) -> dict[str, int]:
    """By producer: records that are there more than once because the producer repeated them."""
    counted: Counter[str] = Counter()
    for partition in range(history.partitions):
        view = _Partition(history, partition)
        for code, places in view.repeated().items():
            if len(places) - 1 <= view.repeats_max(code):
                counted[view.names[producer_of(code)]] += 1
    return dict(counted)


class _Partition:
    """One partition's part of a history, with what several of the looks below need."""

    def __init__(self, history: History, number: int) -> None:
        self.number: Final = number
        self.names: Final = history.producers
        self.sends: Final[dict[int, Sends]] = {
            producer: sends for (producer, partition), sends in history.sends.items() if partition == number
        }
        self.repeats_max: Final = partial(history.repeats_max, number)
        self.final: Final = history.final[number]
        self.live: Final[dict[str, Reads]] = {
            consumer: reads for (consumer, partition), reads in history.reads.items() if partition == number
        }
        self.copies: Final = history.copies.get(number, {})
        self.end_offset: Final = self.final.offsets[-1] + 1 if len(self.final) else 0

    def acknowledged(self) -> Iterator[tuple[int, int]]:
        """Records and the offsets they were acknowledged at."""
        for producer, sends in self.sends.items():
            for sequence, outcome in enumerate(sends.outcomes):
                if outcome >= 0:
                    yield record_code(producer, sequence), outcome

    def sightings(self) -> Iterator[tuple[str, int, int]]:
        """Everything that anybody was told of an offset: by whom, the offset, the record."""
        for code, offset in self.acknowledged():
            yield f"the acknowledgement to {self.names[producer_of(code)]}", offset, code
        for consumer, reads in self.all_reads():
            for offset, code in zip(reads.offsets, reads.codes, strict=True):
                yield consumer, offset, code

    def repeated(self) -> dict[int, dict[int, str]]:
        """Records of which more than one offset was told: all of these, and by whom first."""
        first: dict[int, tuple[int, str]] = {}
        found: dict[int, dict[int, str]] = {}
        for witness, offset, code in self.sightings():
            known, said_by = first.setdefault(code, (offset, witness))
            if known != offset:
                found.setdefault(code, {known: said_by}).setdefault(offset, witness)
        return found

    def all_reads(self) -> Iterator[tuple[str, Reads]]:
        yield from self.live.items()
        yield "the final read", self.final

    def name(self, code: int) -> str:
        producer = producer_of(code)
        known = self.names[producer] if producer < len(self.names) else f"producer {producer}"
        return f"record {sequence_of(code)} of {known}"

    def anomaly(self, kind: Kind, text: str) -> Anomaly:
        return Anomaly(kind, text, self.number)


def _lost_or_unseen(view: _Partition) -> Iterator[Anomaly]:
    found = set(view.final.codes)
    for code, offset in view.acknowledged():
        if code in found:
            continue
        if offset < view.end_offset:
            text = f"{view.name(code)}, acknowledged at offset {offset}; the final read ends at {view.end_offset}"
            yield view.anomaly(Kind.LOST, text)
        else:
            text = f"{view.name(code)}, acknowledged at offset {offset}; the final read ends before it"
            yield view.anomaly(Kind.UNSEEN, f"{text}, at {view.end_offset}")


def _vanished(view: _Partition) -> Iterator[Anomaly]:
    found = set(view.final.codes)
    for consumer, reads in view.live.items():
        for offset, code in zip(reads.offsets, reads.codes, strict=True):
            if code not in found:
                yield view.anomaly(Kind.VANISHED, f"{view.name(code)}, which {consumer} read at offset {offset}")


def _duplicate(view: _Partition) -> Iterator[Anomaly]:
    for code, places in view.repeated().items():
        if len(places) - 1 > view.repeats_max(code):
            text = " and at ".join(f"{offset} by {witness}" for offset, witness in places.items())
            yield view.anomaly(Kind.DUPLICATE, f"{view.name(code)} at offset {text}")


def _inconsistent(view: _Partition) -> Iterator[Anomaly]:
    first: dict[int, tuple[str, int]] = {}
    for witness, offset, code in view.sightings():
        said_by, known = first.setdefault(offset, (witness, code))
        if known != code:
            text = f"offset {offset} is {view.name(known)} by {said_by} and {view.name(code)} by {witness}"
            yield view.anomaly(Kind.INCONSISTENT, text)


def _reordered_within_a_producer(view: _Partition) -> Iterator[Anomaly]:
    """A record that was sent again may come late, but not for the first time, unless nobody knows what was sent."""
    for reader, reads in view.all_reads():
        newest: dict[int, int] = {}
        met: set[int] = set()
        for offset, code in zip(reads.offsets, reads.codes, strict=True):
            producer = producer_of(code)
            before = newest.get(producer, -1)
            repeats_max = view.repeats_max(code)
            is_repeat = repeats_max == float("inf") or code in met
            if repeats_max:
                met.add(code)
            if code < before and not is_repeat:
                text = f"{view.name(code)} at offset {offset} after {view.name(before)}, as {reader} found them"
                yield view.anomaly(Kind.REORDERED, text)
            newest[producer] = max(code, before)


def _reordered_in_time(view: _Partition) -> Iterator[Anomaly]:
    """Of two sends of which one had ended when the other began, the earlier has the lower offset, where it is first."""
    earliest_end_s, earliest_code = float("inf"), -1
    places = sorted(zip(view.final.offsets, view.final.codes, strict=True), reverse=True)
    first_offset = {code: offset for offset, code in places}
    for offset, code in places:
        sends = view.sends.get(producer_of(code))
        sequence = sequence_of(code)
        if sends is None or sequence >= len(sends):
            continue
        if earliest_end_s < sends.begun_at_s[sequence]:
            text = f"{view.name(code)} at offset {offset} was sent after {view.name(earliest_code)} was acknowledged"
            yield view.anomaly(Kind.REORDERED, f"{text}, and comes before it")
        is_first = offset == first_offset[code] or not view.repeats_max(code)
        if is_first and sends.outcomes[sequence] >= 0 and sends.ended_at_s[sequence] < earliest_end_s:
            earliest_end_s, earliest_code = sends.ended_at_s[sequence], code


def _never_sent_or_refused(view: _Partition) -> Iterator[Anomaly]:
    told_of: set[int] = set()
    for reader, reads in view.all_reads():
        for offset, code in zip(reads.offsets, reads.codes, strict=True):
            sends = view.sends.get(producer_of(code))
            if code in told_of:
                continue
            if sends is None or sequence_of(code) >= len(sends):
                told_of.add(code)
                yield view.anomaly(Kind.MADE_UP, f"{view.name(code)}, which {reader} read at offset {offset}")
            elif sends.outcomes[sequence_of(code)] == REFUSED:
                told_of.add(code)
                yield view.anomaly(Kind.REFUSED_BUT_SEEN, f"{view.name(code)}, which {reader} read at offset {offset}")


def _not_one_after_another(view: _Partition) -> Iterator[Anomaly]:
    for reader, reads in view.all_reads():
        expected = 0
        for offset in reads.offsets:
            if offset > expected:
                yield view.anomaly(Kind.SKIPPED, f"{reader} came to offset {offset} where {expected} was next")
            elif offset < expected:
                yield view.anomaly(Kind.STEPPED_BACK, f"{reader} came to offset {offset} where {expected} was next")
            expected = offset + 1


def _stalled(view: _Partition) -> Iterator[Anomaly]:
    for consumer, reads in view.live.items():
        came_to = reads.offsets[-1] + 1 if len(reads) else 0
        if came_to < view.end_offset:
            yield view.anomaly(Kind.STALLED, f"{consumer} came to offset {came_to} of {view.end_offset}")


def _unequal_copies(view: _Partition) -> Iterator[Anomaly]:
    if len(set(view.copies.values())) > 1:
        yield view.anomaly(Kind.UNEQUAL_COPIES, ", ".join(f"node {node}: {it}" for node, it in view.copies.items()))


_LOOKS: Final[tuple[Callable[[_Partition], Iterator[Anomaly]], ...]] = (
    _lost_or_unseen,
    _vanished,
    _duplicate,
    _inconsistent,
    _reordered_within_a_producer,
    _reordered_in_time,
    _never_sent_or_refused,
    _not_one_after_another,
    _stalled,
    _unequal_copies,
)
