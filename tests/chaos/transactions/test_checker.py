"""The checker finds each anomaly in a history that contains it, and none in a correct history."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import Kind
from tests.chaos.transactions.checker import check
from tests.chaos.transactions.history import Outcome, TransactionHistory, parsed, record_code, record_value

WRITER, COPIER = 0, 1
CONSUMER = "a consumer"
LEDGER_0, LEDGER_1, COPIES_0, COPIES_1 = range(4)


def clean_history() -> TransactionHistory:
    """Two transactions across two partitions with an aborted one in between, all copied in one transaction.

    Both partitions of the ledger contain a record of the first transaction (offset 0), a marker, an aborted record, a
    marker, a record of the third transaction (offset 4) and a marker. The copies are at offsets 0 and 1.
    """
    history = TransactionHistory(2)
    history.new_writer("writer")
    history.new_writer("copier")
    history.new_consumer(CONSUMER)
    for outcome in (Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED):
        write(history, WRITER, (LEDGER_0, LEDGER_1), outcome)
    write(history, COPIER, (COPIES_0, COPIES_0, COPIES_1, COPIES_1), Outcome.COMMITTED)
    for place in history.ledger:
        read_by_all(history, place, 0, WRITER, 0, place)
        read_by_all(history, place, 4, WRITER, 2, place)
        read_copy_by_all(history, place, 0, 0, 2 * place, source_number=0)
        read_copy_by_all(history, place, 1, 0, 2 * place + 1, source_number=2)
    history.copies = {place: {1: "same", 2: "same", 3: "same"} for place in history.places}
    return history


def write(history: TransactionHistory, writer: int, places: tuple[int, ...], outcome: Outcome) -> int:
    number = history.begin(writer, places, 0.0)
    history.end(writer, number, outcome, 1.0)
    return number


def read_by_all(history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int) -> None:
    read_by_consumer(history, place, offset, writer, number, index)
    read_at_end(history, place, offset, writer, number, index)


def read_by_consumer(
    history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int
) -> None:
    history.read(CONSUMER, place, offset, record_value(writer, number, index, place))


def read_at_end(history: TransactionHistory, place: int, offset: int, writer: int, number: int, index: int) -> None:
    history.read_finally(place, offset, record_value(writer, number, index, place))


def read_copy_by_all(
    history: TransactionHistory, place: int, offset: int, number: int, index: int, *, source_number: int
) -> None:
    """Reads a copy of the writer's record in this place of the ledger."""
    source = record_value(WRITER, source_number, place, place)
    value = record_value(COPIER, number, index, history.copy_of(place), source)
    history.read(CONSUMER, history.copy_of(place), offset, value)
    history.read_finally(history.copy_of(place), offset, value)


def forget(history: TransactionHistory, place: int, offset: int, *, live_too: bool) -> None:
    """Removes a record from the final read and, with `live_too`, from the consumer's reads."""
    for reads in (history.final[place], *([history.reads[CONSUMER, place]] if live_too else [])):
        at = reads.offsets.index(offset)
        del reads.offsets[at], reads.codes[at], reads.sources[at]


def kinds(history: TransactionHistory) -> set[Kind]:
    return {anomaly.kind for anomaly in check(history)}


def test_correct_history_has_no_anomalies() -> None:
    assert check(clean_history()) == []


def test_value_contains_record_and_source() -> None:
    original = record_value(1, 2, 3, 4)
    assert parsed(original, 4) == (record_code(1, 2, 3), -1)
    assert parsed(record_value(5, 6, 7, 8, original), 8) == (record_code(5, 6, 7), record_code(1, 2, 3))
    assert parsed(original, 3) is None


@pytest.mark.parametrize("is_there", [True, False])
def test_transaction_with_unknown_outcome_may_be_visible_or_not(is_there: bool) -> None:
    history = clean_history()
    number = write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.UNKNOWN)
    copying = write(history, COPIER, (COPIES_0, COPIES_1), Outcome.UNKNOWN)
    if is_there:
        for place in history.ledger:
            read_by_all(history, place, 6, WRITER, number, place)
            read_copy_by_all(history, place, 3, copying, place, source_number=number)
    assert check(history) == []


def aborted_read(history: TransactionHistory) -> None:
    read_by_all(history, LEDGER_0, 5, WRITER, 1, 0)


def aborted_read_by_a_consumer_alone(history: TransactionHistory) -> None:
    read_by_consumer(history, LEDGER_0, 5, WRITER, 1, 0)


def read_without_requested_commit(history: TransactionHistory) -> None:
    number = history.begin(WRITER, (LEDGER_0, LEDGER_1), 0.0)
    read_by_all(history, LEDGER_0, 6, WRITER, number, 0)


def copy_of_an_aborted_record(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
    read_copy_by_all(history, LEDGER_0, 3, number, 0, source_number=1)


def aborted_copy(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.ABORTED)
    read_copy_by_all(history, LEDGER_0, 3, number, 0, source_number=2)


def torn(history: TransactionHistory) -> None:
    forget(history, LEDGER_1, 4, live_too=True)


def torn_of_unknown_outcome(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.UNKNOWN)
    read_by_all(history, LEDGER_0, 6, WRITER, number, 0)


def torn_while_copied(history: TransactionHistory) -> None:
    forget(history, COPIES_1, 0, live_too=True)


def lost(history: TransactionHistory) -> None:
    write(history, WRITER, (LEDGER_0, LEDGER_1), Outcome.COMMITTED)


def never_copied(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    read_by_all(history, LEDGER_0, 6, WRITER, number, 0)


def offset_committed_without_its_copies(history: TransactionHistory) -> None:
    never_copied(history)
    history.copied_up_to = {LEDGER_0: 7, LEDGER_1: 6}


def copiers_behind(history: TransactionHistory) -> None:
    never_copied(history)
    history.copied_up_to = {LEDGER_0: 5, LEDGER_1: 6}


def duplicate(history: TransactionHistory) -> None:
    read_by_all(history, LEDGER_0, 6, WRITER, 2, 0)


def copied_twice(history: TransactionHistory) -> None:
    number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
    read_copy_by_all(history, LEDGER_0, 3, number, 0, source_number=2)


def inconsistent(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    read_by_consumer(history, LEDGER_0, 6, WRITER, number, 0)
    other = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    read_at_end(history, LEDGER_0, 6, WRITER, other, 0)


def vanished(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.UNKNOWN)
    read_by_consumer(history, LEDGER_0, 6, WRITER, number, 0)


def reordered(history: TransactionHistory) -> None:
    first = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    second = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    read_by_all(history, LEDGER_0, 6, WRITER, second, 0)
    read_by_all(history, LEDGER_0, 8, WRITER, first, 0)


def copied_out_of_order(history: TransactionHistory) -> None:
    for offset in (6, 8):
        read_by_all(history, LEDGER_0, offset, WRITER, write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED), 0)
    for offset, source in ((3, 4), (5, 3)):
        number = write(history, COPIER, (COPIES_0,), Outcome.COMMITTED)
        read_copy_by_all(history, LEDGER_0, offset, number, 0, source_number=source)


def never_sent(history: TransactionHistory) -> None:
    read_by_all(history, LEDGER_0, 6, WRITER, 3, 0)


def from_unknown_writer(history: TransactionHistory) -> None:
    read_by_all(history, LEDGER_0, 6, 7, 0, 0)


def sent_elsewhere(history: TransactionHistory) -> None:
    read_by_all(history, LEDGER_0, 6, WRITER, 2, 1)


def unparseable_record(history: TransactionHistory) -> None:
    history.read_finally(LEDGER_0, 6, b"\x00\x01")


def skipped(history: TransactionHistory) -> None:
    for offset in (6, 8):
        number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
        read_at_end(history, LEDGER_0, offset, WRITER, number, 0)
    read_by_consumer(history, LEDGER_0, 8, WRITER, number, 0)


def nonmonotonic(history: TransactionHistory) -> None:
    read_by_consumer(history, LEDGER_0, 4, WRITER, 2, 0)


def stalled(history: TransactionHistory) -> None:
    number = write(history, WRITER, (LEDGER_0,), Outcome.COMMITTED)
    read_at_end(history, LEDGER_0, 6, WRITER, number, 0)


def unequal_replicas(history: TransactionHistory) -> None:
    history.copies[COPIES_1][2] = "other"


def client_error(history: TransactionHistory) -> None:
    history.client_errors.append("no progress")


@pytest.mark.parametrize(
    ("inject", "kind"),
    [
        (aborted_read, Kind.ABORTED_READ),
        (aborted_read_by_a_consumer_alone, Kind.ABORTED_READ),
        (read_without_requested_commit, Kind.ABORTED_READ),
        (copy_of_an_aborted_record, Kind.ABORTED_READ),
        (aborted_copy, Kind.ABORTED_READ),
        (torn, Kind.TORN),
        (torn_of_unknown_outcome, Kind.TORN),
        (torn_while_copied, Kind.TORN),
        (lost, Kind.LOST),
        (never_copied, Kind.LOST),
        (offset_committed_without_its_copies, Kind.LOST),
        (copiers_behind, Kind.STALLED),
        (duplicate, Kind.DUPLICATE),
        (copied_twice, Kind.DUPLICATE),
        (inconsistent, Kind.INCONSISTENT),
        (vanished, Kind.VANISHED),
        (reordered, Kind.REORDERED),
        (copied_out_of_order, Kind.REORDERED),
        (never_sent, Kind.NEVER_SENT),
        (from_unknown_writer, Kind.NEVER_SENT),
        (sent_elsewhere, Kind.NEVER_SENT),
        (unparseable_record, Kind.NEVER_SENT),
        (skipped, Kind.SKIPPED),
        (nonmonotonic, Kind.NONMONOTONIC),
        (stalled, Kind.STALLED),
        (unequal_replicas, Kind.UNEQUAL_REPLICAS),
        (client_error, Kind.CLIENT_ERROR),
    ],
)
def test_checker_finds_anomaly(inject: Callable[[TransactionHistory], None], kind: Kind) -> None:
    history = clean_history()
    inject(history)
    assert kind in kinds(history)


def test_records_that_the_copiers_did_not_reach_are_not_lost() -> None:
    history = clean_history()
    copiers_behind(history)
    assert [str(anomaly) for anomaly in check(history)] == [
        "stalled: the copiers stopped at offset 5, 1 records before the end of the ledger (partition 0 of the copies)"
    ]


def test_torn_transaction_lists_its_missing_records() -> None:
    history = clean_history()
    torn_of_unknown_outcome(history)
    assert (
        "torn: transaction 3 of writer, outcome unknown: 1 of 2 records are visible; "
        "missing: 1 in partition 1 of the ledger"
    ) in [str(anomaly) for anomaly in check(history)]
