"""The checker finds each anomaly in a history that contains it, and none in a correct history."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import Kind, check, tolerated_duplicates
from tests.chaos.history import OPEN, REJECTED, History, record_value

FIRST, SECOND = 0, 1
CONSUMER = "a consumer"


def clean_history() -> History:
    """Two producers, one partition, four records: offsets 0 and 2 of the first, 1 and 3 of the second."""
    history = History(1)
    history.new_producer("first")
    history.new_producer("second")
    history.new_consumer(CONSUMER)
    for offset in range(4):
        acknowledge(history, offset % 2, offset)
        read_by_all(history, offset, offset % 2, offset // 2)
    history.copies = {0: {1: "same", 2: "same", 3: "same"}}
    return history


def acknowledge(history: History, producer: int, offset: int, *, from_s: float | None = None) -> None:
    """Sends that do not overlap, in the order of their offsets."""
    send(history, producer, offset, from_s=offset * 2.0 if from_s is None else from_s)


def send(history: History, producer: int, outcome: int, *, from_s: float = 100.0) -> None:
    sends = history.sends[producer, 0]
    sends.end(sends.begin(from_s), outcome, from_s + 1.0)


def read_by_all(history: History, offset: int, producer: int, sequence: int) -> None:
    read_by_consumer(history, offset, producer, sequence)
    read_at_end(history, offset, producer, sequence)


def read_by_consumer(history: History, offset: int, producer: int, sequence: int) -> None:
    history.read(CONSUMER, 0, offset, record_value(producer, 0, sequence, 20))


def read_at_end(history: History, offset: int, producer: int, sequence: int) -> None:
    history.read_finally(0, offset, record_value(producer, 0, sequence, 20))


def kinds(history: History) -> set[Kind]:
    return {anomaly.kind for anomaly in check(history)}


def test_correct_history_has_no_anomalies() -> None:
    assert check(clean_history()) == []


def test_record_with_unknown_outcome_may_be_stored_or_not() -> None:
    history = clean_history()
    send(history, FIRST, OPEN)
    send(history, SECOND, OPEN)
    read_by_all(history, 4, SECOND, 2)
    assert check(history) == []


def test_overlapping_sends_may_be_stored_in_either_order() -> None:
    history = clean_history()
    acknowledge(history, FIRST, 5, from_s=50.0)
    acknowledge(history, SECOND, 4, from_s=50.5)
    read_by_all(history, 4, SECOND, 2)
    read_by_all(history, 5, FIRST, 2)
    assert check(history) == []


def test_duplicates_of_a_repeating_producer_are_tolerated() -> None:
    history = clean_history()
    history.repeating.add(SECOND)
    read_by_all(history, 4, SECOND, 1)
    read_by_all(history, 5, SECOND, 0)
    assert check(history) == []
    assert tolerated_duplicates(history) == {"second": 2}


def test_only_records_resent_under_a_new_epoch_may_be_duplicated() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    again = sends.begin(20.0)
    history.new_epoch(FIRST)
    sends.end(again, 5, 21.0)
    read_by_all(history, 4, FIRST, again)
    read_by_all(history, 5, FIRST, again)
    assert check(history) == []
    assert tolerated_duplicates(history) == {"first": 1}
    read_by_all(history, 6, FIRST, again - 1)
    assert Kind.DUPLICATE in kinds(history)
    assert tolerated_duplicates(history) == {"first": 1}


def test_each_new_epoch_allows_one_duplicate() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    again = sends.begin(20.0)
    history.new_epoch(FIRST)
    for offset in (4, 5, 6):
        read_by_all(history, offset, FIRST, again)
    assert kinds(history) == {Kind.DUPLICATE}
    assert tolerated_duplicates(history) == {}
    history.new_epoch(FIRST)
    assert check(history) == []
    assert tolerated_duplicates(history) == {"first": 1}


def test_first_appearance_of_a_resent_record_is_in_order() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    earlier, later = sends.begin(20.0), sends.begin(20.0)
    history.new_epoch(FIRST)
    read_by_all(history, 4, FIRST, later)
    read_by_all(history, 5, FIRST, earlier)
    assert kinds(history) == {Kind.REORDERED}


def test_first_appearance_of_a_repeated_record_is_in_time_order() -> None:
    history = clean_history()
    history.repeating.add(FIRST)
    acknowledge(history, FIRST, 4, from_s=50.0)
    acknowledge(history, SECOND, 5, from_s=60.0)
    read_by_all(history, 4, FIRST, 2)
    read_by_all(history, 5, SECOND, 2)
    read_by_all(history, 6, FIRST, 2)
    assert check(history) == []
    history.sends[FIRST, 0].begun_at_s[2] = 70.0
    assert kinds(history) == {Kind.REORDERED}


def lost(history: History) -> None:
    acknowledge(history, FIRST, 3)


def unseen(history: History) -> None:
    acknowledge(history, FIRST, 4)


def vanished(history: History) -> None:
    send(history, FIRST, OPEN)
    read_by_consumer(history, 4, FIRST, 2)


def duplicate(history: History) -> None:
    read_by_all(history, 4, SECOND, 1)


def duplicate_of_an_acknowledgement(history: History) -> None:
    acknowledge(history, FIRST, 4)
    send(history, SECOND, OPEN)
    read_by_all(history, 4, SECOND, 2)
    read_by_all(history, 5, FIRST, 2)


def inconsistent(history: History) -> None:
    send(history, FIRST, OPEN)
    send(history, SECOND, OPEN)
    read_by_consumer(history, 4, FIRST, 2)
    read_at_end(history, 4, SECOND, 2)
    read_at_end(history, 5, FIRST, 2)


def reordered_within_a_producer(history: History) -> None:
    send(history, FIRST, OPEN)
    send(history, FIRST, OPEN)
    read_by_all(history, 4, FIRST, 3)
    read_by_all(history, 5, FIRST, 2)


def reordered_in_time(history: History) -> None:
    acknowledge(history, FIRST, 5, from_s=50.0)
    acknowledge(history, SECOND, 4, from_s=60.0)
    read_by_all(history, 4, SECOND, 2)
    read_by_all(history, 5, FIRST, 2)


def rejected_but_read(history: History) -> None:
    send(history, FIRST, REJECTED)
    read_by_all(history, 4, FIRST, 2)


def never_sent(history: History) -> None:
    read_by_all(history, 4, FIRST, 2)


def from_unknown_writer(history: History) -> None:
    read_by_all(history, 4, 7, 0)


def of_another_partition(history: History) -> None:
    history.read(CONSUMER, 0, 4, record_value(FIRST, 1, 2, 20))


def unparseable_record(history: History) -> None:
    history.read_finally(0, 4, b"\x00\x01")


def skipped(history: History) -> None:
    send(history, FIRST, OPEN)
    read_by_consumer(history, 5, FIRST, 2)
    read_at_end(history, 4, FIRST, 2)


def nonmonotonic(history: History) -> None:
    read_by_consumer(history, 2, FIRST, 1)
    read_by_consumer(history, 3, SECOND, 1)


def stalled(history: History) -> None:
    acknowledge(history, FIRST, 4)
    read_at_end(history, 4, FIRST, 2)


def unequal_replicas(history: History) -> None:
    history.copies = {0: {1: "same", 2: "same", 3: "other"}}


def client_error(history: History) -> None:
    history.client_errors.append("first gave up")


@pytest.mark.parametrize(
    ("inject", "kind"),
    [
        (lost, Kind.LOST),
        (unseen, Kind.UNSEEN),
        (vanished, Kind.VANISHED),
        (duplicate, Kind.DUPLICATE),
        (duplicate_of_an_acknowledgement, Kind.DUPLICATE),
        (inconsistent, Kind.INCONSISTENT),
        (reordered_within_a_producer, Kind.REORDERED),
        (reordered_in_time, Kind.REORDERED),
        (rejected_but_read, Kind.REJECTED_BUT_READ),
        (never_sent, Kind.NEVER_SENT),
        (from_unknown_writer, Kind.NEVER_SENT),
        (of_another_partition, Kind.NEVER_SENT),
        (unparseable_record, Kind.NEVER_SENT),
        (skipped, Kind.SKIPPED),
        (nonmonotonic, Kind.NONMONOTONIC),
        (stalled, Kind.STALLED),
        (unequal_replicas, Kind.UNEQUAL_REPLICAS),
        (client_error, Kind.CLIENT_ERROR),
    ],
)
def test_checker_finds_anomaly(inject: Callable[[History], None], kind: Kind) -> None:
    history = clean_history()
    inject(history)
    assert kind in kinds(history)


def test_anomaly_names_the_record_and_the_observer() -> None:
    history = clean_history()
    lost(history)
    assert "lost: record 2 of first, acknowledged at offset 3; the final read ends at 4 (partition 0)" in [
        str(anomaly) for anomaly in check(history)
    ]


def test_record_missing_at_the_log_end_is_unseen_and_vanished() -> None:
    history = clean_history()
    acknowledge(history, FIRST, 4)
    read_by_consumer(history, 4, FIRST, 2)
    assert kinds(history) == {Kind.UNSEEN, Kind.VANISHED}
