"""Checks a history of sends and reads: no record may be lost, duplicated, reordered or invented.

Pure: a history in, anomalies out. It follows Jepsen's Kafka workload and uses its names where they fit. Producers retry
idempotently or not at all, so a record is stored at most once, unless the history allows its producer a number of
repetitions. There are no transactions, so offsets have no gaps.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from tests.chaos.history import REJECTED, History, Reads, Sends, producer_of, record_code, sequence_of


class Kind(StrEnum):
    LOST = "lost"
    """Acknowledged at an offset; the final read passed that offset without the record."""
    UNSEEN = "unseen"
    """Acknowledged; the final read ended before its offset."""
    VANISHED = "vanished"
    """Read by a consumer but missing from the final read."""
    DUPLICATE = "duplicate"
    """One record at two offsets."""
    INCONSISTENT = "inconsistent offset"
    """Two records at one offset."""
    REORDERED = "reordered"
    """Two records in an order that contradicts the order of their sends."""
    REJECTED_BUT_READ = "rejected but read"
    """Read although the response said that the record is not stored."""
    ABORTED_READ = "aborted read"
    """A record of a transaction that was aborted or never requested to commit."""
    TORN = "torn"
    """Only some records of a transaction are visible."""
    NEVER_SENT = "never sent"
    """Read, but never sent to this partition."""
    SKIPPED = "skipped"
    """A consumer received an offset without the one before it."""
    NONMONOTONIC = "nonmonotonic"
    """A consumer received an offset twice, or an earlier one after a later one."""
    STALLED = "stalled"
    """A consumer did not reach the end after all faults had healed."""
    UNEQUAL_REPLICAS = "unequal replicas"
    """Two in-sync replicas differ in a byte."""
    CLIENT_ERROR = "client error"
    """A client received an error that must not occur."""
    NOT_RECOVERED = "not recovered"
    """The cluster did not recover in time after a fault, or a node exited. Reported by the run."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    text: str
    partition: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" + ("" if self.partition is None else f" (partition {self.partition})")


def check(history: History) -> list[Anomaly]:
    found = [Anomaly(Kind.NEVER_SENT, text) for text in history.foreign_records]
    found += [Anomaly(Kind.CLIENT_ERROR, text) for text in history.client_errors]
    for partition in range(history.partitions):
        view = _Partition(history, partition)
        for check_one in _CHECKS:
            found += check_one(view)
    return found


def tolerated_duplicates(history: History) -> dict[str, int]:
    """Number of records, by producer, that are duplicated because the client sent them again."""
    counted: Counter[str] = Counter()
    for partition in range(history.partitions):
        view = _Partition(history, partition)
        for code, places in view.repeated().items():
            if len(places) - 1 <= view.repeats_max(code):
                counted[view.names[producer_of(code)]] += 1
    return dict(counted)


class _Partition:
    """The history of one partition, with values that several checks need."""

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
        """Records with their acknowledged offsets."""
        for producer, sends in self.sends.items():
            for sequence, outcome in enumerate(sends.outcomes):
                if outcome >= 0:
                    yield record_code(producer, sequence), outcome

    def observations(self) -> Iterator[tuple[str, int, int]]:
        """Every observation of a record at an offset: observer, offset, record."""
        for code, offset in self.acknowledged():
            yield f"the acknowledgement to {self.names[producer_of(code)]}", offset, code
        for consumer, reads in self.all_reads():
            for offset, code in zip(reads.offsets, reads.codes, strict=True):
                yield consumer, offset, code

    def repeated(self) -> dict[int, dict[int, str]]:
        """Records observed at more than one offset: the offsets, each with its first observer."""
        first: dict[int, tuple[int, str]] = {}
        found: dict[int, dict[int, str]] = {}
        for observer, offset, code in self.observations():
            known, first_observer = first.setdefault(code, (offset, observer))
            if known != offset:
                found.setdefault(code, {known: first_observer}).setdefault(offset, observer)
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
            text = " and at ".join(f"{offset} by {observer}" for offset, observer in places.items())
            yield view.anomaly(Kind.DUPLICATE, f"{view.name(code)} at offset {text}")


def _inconsistent(view: _Partition) -> Iterator[Anomaly]:
    first: dict[int, tuple[str, int]] = {}
    for observer, offset, code in view.observations():
        first_observer, known = first.setdefault(offset, (observer, code))
        if known != code:
            text = f"offset {offset} is {view.name(known)} by {first_observer} and {view.name(code)} by {observer}"
            yield view.anomaly(Kind.INCONSISTENT, text)


def _reordered_within_a_producer(view: _Partition) -> Iterator[Anomaly]:
    """A repeated record may appear late again, but its first appearance must be in order."""
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
                text = f"{view.name(code)} at offset {offset} after {view.name(before)}, as read by {reader}"
                yield view.anomaly(Kind.REORDERED, text)
            newest[producer] = max(code, before)


def _reordered_in_time(view: _Partition) -> Iterator[Anomaly]:
    """Of two sends that do not overlap in time, the earlier one has the lower offset at its first appearance."""
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


def _never_sent_or_rejected(view: _Partition) -> Iterator[Anomaly]:
    reported: set[int] = set()
    for reader, reads in view.all_reads():
        for offset, code in zip(reads.offsets, reads.codes, strict=True):
            sends = view.sends.get(producer_of(code))
            if code in reported:
                continue
            if sends is None or sequence_of(code) >= len(sends):
                reported.add(code)
                yield view.anomaly(Kind.NEVER_SENT, f"{view.name(code)}, which {reader} read at offset {offset}")
            elif sends.outcomes[sequence_of(code)] == REJECTED:
                reported.add(code)
                yield view.anomaly(Kind.REJECTED_BUT_READ, f"{view.name(code)}, which {reader} read at offset {offset}")


def _skipped_or_nonmonotonic(view: _Partition) -> Iterator[Anomaly]:
    for reader, reads in view.all_reads():
        expected = 0
        for offset in reads.offsets:
            if offset > expected:
                yield view.anomaly(Kind.SKIPPED, f"{reader} received offset {offset} instead of {expected}")
            elif offset < expected:
                yield view.anomaly(Kind.NONMONOTONIC, f"{reader} received offset {offset} instead of {expected}")
            expected = offset + 1


def _stalled(view: _Partition) -> Iterator[Anomaly]:
    for consumer, reads in view.live.items():
        position = reads.offsets[-1] + 1 if len(reads) else 0
        if position < view.end_offset:
            yield view.anomaly(Kind.STALLED, f"{consumer} reached offset {position} of {view.end_offset}")


def _unequal_replicas(view: _Partition) -> Iterator[Anomaly]:
    if len(set(view.copies.values())) > 1:
        yield view.anomaly(Kind.UNEQUAL_REPLICAS, ", ".join(f"node {node}: {it}" for node, it in view.copies.items()))


_CHECKS: Final[tuple[Callable[[_Partition], Iterator[Anomaly]], ...]] = (
    _lost_or_unseen,
    _vanished,
    _duplicate,
    _inconsistent,
    _reordered_within_a_producer,
    _reordered_in_time,
    _never_sent_or_rejected,
    _skipped_or_nonmonotonic,
    _stalled,
    _unequal_replicas,
)
