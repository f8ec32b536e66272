"""The checker finds each anomaly in a history made by hand that has it, and none in one that has not."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import Kind
from tests.chaos.transactions.checker import check
from tests.chaos.transactions.history import Outcome, TransactionHistory, parsed, record_code, record_value

WRITER, COPIER = 0, 1
CONSUMER = "a consumer"
LEDGER_0, LEDGER_1, COPIES_0, COPIES_1 = range(4)


def clean_history() -> TransactionHistory:
    """Two transactions across two partitions with an aborted one between them, all copied in one.

    In both partitions of the ledger: offset 0 of the first, a marker, an aborted record, a marker, offset 4 of the
    third, a marker. In those of the copies: offsets 0 and 1, and a marker.
    """
    history = TransactionHistory(2)
    history.new_writer("writer")
    history.new_writer("copier")
    history.new_consumer(CONSUMER)
    for outcome in (Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED):
        write(history, WRITER, (LEDGER_0, LEDGER_1), outcome)
    write(history, COPIER, (COPIES_0, COPIES_0, COPIES_1, COPIES_1), Outcome.COMMITTED)
    for place in history.ledger:
        see(history, place, 0, WRITER, 0, place)
        see(history, place, 4, WRITER, 2, place)
        see_copy(history, place, 0, 0, 2 * place, source_number=0)
        see_copy(history, place, 1, 0, 2 * place + 1, source_number=2)
    history.copies = {place: {1: "same", 2: "same", 3: "same"} for place in history.places}
    return history


def write(history: TransactionHistory, writer: int, places: tuple[int, ...], outcome: Outcome) -> int:
    number = history.begin(writer, places, 0.0)
    history.end(writer, number, outcome, 1.0)
    return number


def see(history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int) -> None:
    see_live(history, place, offset, writer, number, index)
    see_finally(history, place, offset, writer, number, index)


def see_live(history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int) -> None:
    history.read(CONSUMER, place, offset, record_value(writer, number, index, place))


def see_finally(history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int) -> None:
    history.read_finally(place, offset, record_value(writer, number, index, place))


def see_copy(
    history: TransactionHistory, place: int, offset: int, number: int, index: int, *, source_number: int
) -> None:
    """Of the record that a transaction of the writer has in this place of the ledger."""
    source = record_value(WRITER, source_number, place, place)
    value = record_value(COPIER, number, index, history.copy_of(place), source)
    history.read(CONSUMER, history.copy_of(place), offset, value)
    history.read_finally(history.copy_of(place), offset, value)


def forget(history: TransactionHistory, place: int, offset: int, *, live_too: bool) -> None:
    """As if nobody had read it."""
    for reads in (history.final[place], *([history.reads[CONSUMER, place]] if live_too else [])):
        at = reads.offsets.index(offset)
        del reads.offsets[at], reads.codes[at], reads.sources[at]


def kinds(history: TransactionHistory) -> set[Kind]:
    return {anomaly.kind for anomaly in check(history)}


def test_nothing_is_wrong_with_a_history_where_nothing_is_wrong() -> None:
    assert check(clean_history()) == []


def test_a_value_says_what_it_is_and_what_it_is_a_copy_of() -> None:
    original = record_value(1, 2, 3, 4)
    assert parsed(original, 4) == (record_code(1, 2, 3), -1)
    assert parsed(record_value(5, 6, 7, 8, original), 8) == (record_code(5, 6, 7), record_code(1, 2, 3))
    assert parsed(original, 3) is None


@pytest.mark.parametrize("is_there", [True, False])
def test_a_transaction_of_unknown_outcome_may_be_there_or_not(is_there: bool) -> None:
    history = clean_history()
    number = write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.UNKNOWN)
    copying = write(history, COPIER, (COPIES_0, COPIES_1), Outcome.UNKNOWN)
    if is_there:
        for place in history.ledger:
            see(history, place, 6, WRITER, number, place)
            see_copy(history, place, 3, copying, place, source_number=number)
    assert check(history) == []


def aborted_read(history: TransactionHistory) -> None:
    see(history, LEDGER_0, 5, WRITER, 1, 0)


def aborted_read_by_a_consumer_alone(history: TransactionHistory) -> None:
    see_live(history, LEDGER_0, 5, WRITER, 1, 0)


def read_though_nobody_asked_for_a_commit(history: TransactionHistory) -> None:
    number = history.begin(WRITER, (LEDGER_0, LEDGER_1), 0.0)
    see(history, LEDGER_0, 6, WRITER, number, 0)


def copy_of_an_aborted_record(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
    see_copy(history, LEDGER_0, 3, number, 0, source_number=1)


def aborted_copy(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.ABORTED)
    see_copy(history, LEDGER_0, 3, number, 0, source_number=2)


def torn(history: TransactionHistory) -> None:
    forget(history, LEDGER_1, 4, live_too=True)


def torn_of_unknown_outcome(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.UNKNOWN)
    see(history, LEDGER_0, 6, WRITER, number, 0)


def torn_while_copied(history: TransactionHistory) -> None:
    forget(history, COPIES_1, 0, live_too=True)


def lost(history: TransactionHistory) -> None:
    write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.COMMITTED)


def never_copied(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    see(history, LEDGER_0, 6, WRITER, number, 0)


def duplicate(history: TransactionHistory) -> None:
    see(history, LEDGER_0, 6, WRITER, 2, 0)


def copied_twice(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
    see_copy(history, LEDGER_0, 3, number, 0, source_number=2)


def inconsistent(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    see_live(history, LEDGER_0, 6, WRITER, number, 0)
    other = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    see_finally(history, LEDGER_0, 6, WRITER, other, 0)


def vanished(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.UNKNOWN)
    see_live(history, LEDGER_0, 6, WRITER, number, 0)


def reordered(history: TransactionHistory) -> None:
    first = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    second = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    see(history, LEDGER_0, 6, WRITER, second, 0)
    see(history, LEDGER_0, 8, WRITER, first, 0)


def copied_out_of_order(history: TransactionHistory) -> None:
    for offset in (6, 8):
        see(history, LEDGER_0, offset, WRITER, write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED), 0)
    for offset, source in ((3, 4), (5, 3)):
        number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
        see_copy(history, LEDGER_0, offset, number, 0, source_number=source)


def never_sent(history: TransactionHistory) -> None:
    see(history, LEDGER_0, 6, WRITER, 3, 0)


def of_nobody(history: TransactionHistory) -> None:
    see(history, LEDGER_0, 6, 7, 0, 0)


def sent_elsewhere(history: TransactionHistory) -> None:
    see(history, LEDGER_0, 6, WRITER, 2, 1)


def not_a_record_of_ours(history: TransactionHistory) -> None:
    history.read_finally(LEDGER_0, 6, b"\x00\x01")


def skipped(history: TransactionHistory) -> None:
    for offset in (6, 8):
        number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
        see_finally(history, LEDGER_0, offset, WRITER, number, 0)
    see_live(history, LEDGER_0, 8, WRITER, number, 0)


def stepped_back(history: TransactionHistory) -> None:
    see_live(history, LEDGER_0, 4, WRITER, 2, 0)


def stalled(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    see_finally(history, LEDGER_0, 6, WRITER, number, 0)


def unequal_copies(history: TransactionHistory) -> None:
    history.copies[COPIES_1][2] = "other"


def complaint(history: TransactionHistory) -> None:
    history.complaints.append("it stands still")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (aborted_read, Kind.ABORTED_READ),
        (aborted_read_by_a_consumer_alone, Kind.ABORTED_READ),
        (read_though_nobody_asked_for_a_commit, Kind.ABORTED_READ),
        (copy_of_an_aborted_record, Kind.ABORTED_READ),
        (aborted_copy, Kind.ABORTED_READ),
        (torn, Kind.TORN),
        (torn_of_unknown_outcome, Kind.TORN),
        (torn_while_copied, Kind.TORN),
        (lost, Kind.LOST),
        (never_copied, Kind.LOST),
        (duplicate, Kind.DUPLICATE),
        (copied_twice, Kind.DUPLICATE),
        (inconsistent, Kind.INCONSISTENT),
        (vanished, Kind.VANISHED),
        (reordered, Kind.REORDERED),
        (copied_out_of_order, Kind.REORDERED),
        (never_sent, Kind.MADE_UP),
        (of_nobody, Kind.MADE_UP),
        (sent_elsewhere, Kind.MADE_UP),
        (not_a_record_of_ours, Kind.MADE_UP),
        (skipped, Kind.SKIPPED),
        (stepped_back, Kind.STEPPED_BACK),
        (stalled, Kind.STALLED),
        (unequal_copies, Kind.UNEQUAL_COPIES),
        (complaint, Kind.COMPLAINT),
    ],
)
def test_an_anomaly_is_found(spoil: Callable[[TransactionHistory], None], kind: Kind) -> None:
    history = clean_history()
    spoil(history)
    assert kind in kinds(history)


def test_a_torn_transaction_is_named_with_what_is_missing_of_it() -> None:
    history = clean_history()
    torn_of_unknown_outcome(history)
    assert (
        "torn: transaction 3 of writer, of unknown outcome, of which 1 of 2 records are there; "
        "missing: 1 in partition 1 of the ledger"
    ) in [str(anomaly) for anomaly in check(history)]
