"""Checks a history of transactions: each is visible completely and once, or not at all.

Pure: a history in, anomalies out. Consumers read with read_committed, so offsets have gaps at markers and aborted
records. What they read must equal the final read, record by record.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tests.chaos.checker import Anomaly, Kind
from tests.chaos.transactions.history import (
    NO_SOURCE,
    Outcome,
    Reads,
    Transaction,
    TransactionHistory,
    index_of,
    number_of,
    record_code,
    writer_of,
)

_Check = Callable[["_View"], Iterator[Anomaly]]


def check(history: TransactionHistory) -> list[Anomaly]:
    found = [Anomaly(Kind.NEVER_SENT, text) for text in history.foreign_records]
    found += [Anomaly(Kind.CLIENT_ERROR, text) for text in history.client_errors]
    view = _View(history)
    for check_one in _CHECKS:
        found += check_one(view)
    return found


class _View:
    """A history, with values that several checks need."""

    def __init__(self, history: TransactionHistory) -> None:
        self.history: Final = history
        self.found: Final = {place: set(history.final[place].codes) for place in history.places}

    def readers(self, place: int) -> Iterator[tuple[str, Reads]]:
        yield "the final read", self.history.final[place]
        yield from self.live(place)

    def live(self, place: int) -> Iterator[tuple[str, Reads]]:
        for (consumer, of_place), reads in self.history.reads.items():
            if of_place == place:
                yield consumer, reads

    def transaction(self, code: int, place: int) -> Transaction | None:
        """None if no such record was ever sent to this partition."""
        writer, number, index = writer_of(code), number_of(code), index_of(code)
        if writer >= len(self.history.writers) or number >= len(self.history.transactions[writer]):
            return None
        transaction = self.history.transactions[writer][number]
        return transaction if index < len(transaction.places) and transaction.places[index] == place else None

    def all_transactions(self) -> Iterator[tuple[int, int, Transaction]]:
        for writer, transactions in enumerate(self.history.transactions):
            for number, transaction in enumerate(transactions):
                yield writer, number, transaction

    def name(self, code: int) -> str:
        return f"record {index_of(code)} of {self.name_of_transaction(writer_of(code), number_of(code))}"

    def name_of_transaction(self, writer: int, number: int) -> str:
        known = self.history.writers[writer] if writer < len(self.history.writers) else f"writer {writer}"
        return f"transaction {number} of {known}"

    def anomaly(self, kind: Kind, place: int, text: str) -> Anomaly:
        return Anomaly(kind, f"{text} ({self.history.name_of(place)})")


def _lost_or_torn(view: _View) -> Iterator[Anomaly]:
    for writer, number, transaction in view.all_transactions():
        if transaction.outcome is Outcome.ABORTED:
            continue
        codes = [record_code(writer, number, index) for index in range(len(transaction.places))]
        there = [code in view.found[place] for code, place in zip(codes, transaction.places, strict=True)]
        name = view.name_of_transaction(writer, number)
        outcome = "acknowledged" if transaction.outcome is Outcome.COMMITTED else "outcome unknown"
        if any(there) and not all(there):
            text = f"{name}, {outcome}: {there.count(True)} of {len(there)} records are visible"
            yield Anomaly(Kind.TORN, f"{text}; missing: {', '.join(_missing(view, transaction, there))}")
        elif not any(there) and transaction.outcome is Outcome.COMMITTED:
            yield Anomaly(Kind.LOST, f"{name}, {outcome}; none of its {len(there)} records is visible")


def _missing(view: _View, transaction: Transaction, there: list[bool]) -> Iterator[str]:
    for index, is_there in enumerate(there):
        if not is_there:
            yield f"{index} in {view.history.name_of(transaction.places[index])}"


def _aborted_or_never_sent(view: _View) -> Iterator[Anomaly]:
    for place in view.history.places:
        reported: set[int] = set()
        for reader, reads in view.readers(place):
            for offset, code in zip(reads.offsets, reads.codes, strict=True):
                transaction = view.transaction(code, place)
                if code in reported or (transaction is not None and transaction.outcome is not Outcome.ABORTED):
                    continue
                reported.add(code)
                kind = Kind.NEVER_SENT if transaction is None else Kind.ABORTED_READ
                yield view.anomaly(kind, place, f"{view.name(code)}, which {reader} read at offset {offset}")


def _duplicate_or_inconsistent(view: _View) -> Iterator[Anomaly]:
    for place in view.history.places:
        offset_of: dict[int, tuple[int, str]] = {}
        code_at: dict[int, tuple[int, str]] = {}
        for reader, reads in view.readers(place):
            for offset, code in zip(reads.offsets, reads.codes, strict=True):
                known_offset, first_observer = offset_of.setdefault(code, (offset, reader))
                if known_offset != offset:
                    text = f"{view.name(code)} at offset {known_offset} by {first_observer} and at {offset} by {reader}"
                    yield view.anomaly(Kind.DUPLICATE, place, text)
                known_code, first_observer = code_at.setdefault(offset, (code, reader))
                if known_code != code:
                    text = (
                        f"offset {offset} is {view.name(known_code)} by {first_observer}, {view.name(code)} by {reader}"
                    )
                    yield view.anomaly(Kind.INCONSISTENT, place, text)


def _vanished(view: _View) -> Iterator[Anomaly]:
    for place in view.history.places:
        for consumer, reads in view.live(place):
            for offset, code in zip(reads.offsets, reads.codes, strict=True):
                if code not in view.found[place]:
                    text = f"{view.name(code)}, which {consumer} read at offset {offset}"
                    yield view.anomaly(Kind.VANISHED, place, text)


def _reordered(view: _View) -> Iterator[Anomaly]:
    """The transactions of a writer, and their records in every partition, are in order."""
    for place in view.history.places:
        newest: dict[int, int] = {}
        for offset, code in _in_order_of_offsets(view.history.final[place]):
            before = newest.get(writer_of(code), -1)
            if code < before:
                text = f"{view.name(code)} at offset {offset} after {view.name(before)}"
                yield view.anomaly(Kind.REORDERED, place, text)
            newest[writer_of(code)] = max(code, before)


def _in_order_of_offsets(reads: Reads) -> list[tuple[int, int]]:
    return sorted(zip(reads.offsets, reads.codes, strict=True))


def _skipped_or_nonmonotonic(view: _View) -> Iterator[Anomaly]:
    for place in view.history.places:
        final = set(view.history.final[place].offsets)
        for reader, reads in view.readers(place):
            before = -1
            read_offsets = set(reads.offsets)
            for offset in reads.offsets:
                if offset <= before:
                    yield view.anomaly(Kind.NONMONOTONIC, place, f"{reader} received offset {offset} after {before}")
                before = max(before, offset)
            skipped = sorted(offset for offset in final - read_offsets if offset < before)
            if skipped:
                text = f"{reader} reached offset {before} without {len(skipped)} earlier offsets, the first of them"
                yield view.anomaly(Kind.SKIPPED, place, f"{text} {skipped[0]}")


def _stalled(view: _View) -> Iterator[Anomaly]:
    for place in view.history.places:
        last = max(view.history.final[place].offsets, default=-1)
        for consumer, reads in view.live(place):
            position = max(reads.offsets, default=-1)
            if position < last:
                yield view.anomaly(Kind.STALLED, place, f"{consumer} reached offset {position} of {last}")


def _not_copied_once(view: _View) -> Iterator[Anomaly]:
    """The output of the copiers equals their input, in order."""
    for place in view.history.ledger:
        ledger = view.history.final[place]
        originals = {code: rank for rank, code in enumerate(ledger.codes)}
        copies_place = view.history.copy_of(place)
        copies = view.history.final[copies_place]
        copied_at: dict[int, int] = {}
        newest = -1
        for offset, source in zip(copies.offsets, copies.sources, strict=True):
            if source == NO_SOURCE:
                yield view.anomaly(Kind.NEVER_SENT, copies_place, f"offset {offset} is not a copy")
                continue
            rank = originals.get(source)
            if rank is None:
                original = view.transaction(source, place)
                is_aborted = original is not None and original.outcome is Outcome.ABORTED
                kind = Kind.ABORTED_READ if is_aborted else Kind.VANISHED
                text = f"{view.name(source)}, which is copied at offset {offset} and is not in the ledger"
                yield view.anomaly(kind, copies_place, text)
                continue
            if source in copied_at:
                text = f"{view.name(source)} is copied at offset {copied_at[source]} and at {offset}"
                yield view.anomaly(Kind.DUPLICATE, copies_place, text)
            elif rank < newest:
                text = f"{view.name(source)}, copied at offset {offset}, comes after what follows it in the ledger"
                yield view.anomaly(Kind.REORDERED, copies_place, text)
            copied_at.setdefault(source, offset)
            newest = max(newest, rank)
        yield from _never_copied(view, place, [rank for code, rank in originals.items() if code not in copied_at])


def _never_copied(view: _View, place: int, ranks: list[int]) -> Iterator[Anomaly]:
    """A committed offset without its copies is a torn transaction; later records were only not reached in time."""
    ledger, committed = view.history.final[place], view.history.copied_up_to.get(place)
    copies_place = view.history.copy_of(place)
    not_reached = 0
    for rank in ranks:
        offset = ledger.offsets[rank]
        if committed is not None and offset >= committed:
            not_reached += 1
        else:
            text = f"{view.name(ledger.codes[rank])} at offset {offset} was never copied"
            yield view.anomaly(Kind.LOST, copies_place, f"{text}; the copiers have committed offset {committed}")
    if not_reached:
        text = f"the copiers stopped at offset {committed}, {not_reached} records before the end of the ledger"
        yield view.anomaly(Kind.STALLED, copies_place, text)


def _unequal_replicas(view: _View) -> Iterator[Anomaly]:
    for place, copies in view.history.copies.items():
        if len(set(copies.values())) > 1:
            text = ", ".join(f"node {node}: {digest}" for node, digest in copies.items())
            yield view.anomaly(Kind.UNEQUAL_REPLICAS, place, text)


_CHECKS: Final[tuple[_Check, ...]] = (
    _lost_or_torn,
    _aborted_or_never_sent,
    _duplicate_or_inconsistent,
    _vanished,
    _reordered,
    _skipped_or_nonmonotonic,
    _stalled,
    _not_copied_once,
    _unequal_replicas,
)
