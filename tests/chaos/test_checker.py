"""The checker finds each anomaly in a history made by hand that has it, and none in one that has not."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import Kind, check, excused
from tests.chaos.history import OPEN, REFUSED, History, record_value

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
        see(history, offset, offset % 2, offset // 2)
    history.copies = {0: {1: "same", 2: "same", 3: "same"}}
    return history


def acknowledge(history: History, producer: int, offset: int, *, from_s: float | None = None) -> None:
    """Sends that follow one another in time, a second each, as their offsets do."""
    send(history, producer, offset, from_s=offset * 2.0 if from_s is None else from_s)


def send(history: History, producer: int, outcome: int, *, from_s: float = 100.0) -> None:
    sends = history.sends[producer, 0]
    sends.end(sends.begin(from_s), outcome, from_s + 1.0)


def see(history: History, offset: int, producer: int, sequence: int) -> None:
    see_live(history, offset, producer, sequence)
    see_finally(history, offset, producer, sequence)


def see_live(history: History, offset: int, producer: int, sequence: int) -> None:
    history.read(CONSUMER, 0, offset, record_value(producer, 0, sequence, 20))


def see_finally(history: History, offset: int, producer: int, sequence: int) -> None:
    history.read_finally(0, offset, record_value(producer, 0, sequence, 20))


def kinds(history: History) -> set[Kind]:
    return {anomaly.kind for anomaly in check(history)}


def test_nothing_is_wrong_with_a_history_where_nothing_is_wrong() -> None:
    assert check(clean_history()) == []


def test_what_nobody_answered_may_be_there_or_not() -> None:
    history = clean_history()
    send(history, FIRST, OPEN)
    send(history, SECOND, OPEN)
    see(history, 4, SECOND, 2)
    assert check(history) == []


def test_sends_at_one_time_may_be_stored_in_either_order() -> None:
    history = clean_history()
    acknowledge(history, FIRST, 5, from_s=50.0)
    acknowledge(history, SECOND, 4, from_s=50.5)
    see(history, 4, SECOND, 2)
    see(history, 5, FIRST, 2)
    assert check(history) == []


def test_a_producer_that_repeats_itself_may_be_read_twice() -> None:
    history = clean_history()
    history.repeating.add(SECOND)
    see(history, 4, SECOND, 1)
    see(history, 5, SECOND, 0)
    assert check(history) == []
    assert excused(history) == {"second": 2}


def test_what_was_sent_again_under_a_new_epoch_may_be_read_twice_and_nothing_else_may() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    again = sends.begin(20.0)
    history.new_epoch(FIRST)
    sends.end(again, 5, 21.0)
    see(history, 4, FIRST, again)
    see(history, 5, FIRST, again)
    assert check(history) == []
    assert excused(history) == {"first": 1}
    see(history, 6, FIRST, again - 1)
    assert Kind.DUPLICATE in kinds(history)
    assert excused(history) == {"first": 1}


def test_a_new_epoch_allows_one_repetition_and_the_next_one_another() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    again = sends.begin(20.0)
    history.new_epoch(FIRST)
    for offset in (4, 5, 6):
        see(history, offset, FIRST, again)
    assert kinds(history) == {Kind.DUPLICATE}
    assert excused(history) == {}
    history.new_epoch(FIRST)
    assert check(history) == []
    assert excused(history) == {"first": 1}


def test_what_was_sent_again_under_a_new_epoch_is_there_for_the_first_time_in_its_order() -> None:
    history = clean_history()
    sends = history.sends[FIRST, 0]
    earlier, later = sends.begin(20.0), sends.begin(20.0)
    history.new_epoch(FIRST)
    see(history, 4, FIRST, later)
    see(history, 5, FIRST, earlier)
    assert kinds(history) == {Kind.REORDERED}


def test_a_repeated_record_keeps_its_place_in_time() -> None:
    history = clean_history()
    history.repeating.add(FIRST)
    acknowledge(history, FIRST, 4, from_s=50.0)
    acknowledge(history, SECOND, 5, from_s=60.0)
    see(history, 4, FIRST, 2)
    see(history, 5, SECOND, 2)
    see(history, 6, FIRST, 2)
    assert check(history) == []
    history.sends[FIRST, 0].begun_at_s[2] = 70.0
    assert kinds(history) == {Kind.REORDERED}


def lost(history: History) -> None:
    acknowledge(history, FIRST, 3)


def unseen(history: History) -> None:
    acknowledge(history, FIRST, 4)


def vanished(history: History) -> None:
    send(history, FIRST, OPEN)
    see_live(history, 4, FIRST, 2)


def duplicate(history: History) -> None:
    see(history, 4, SECOND, 1)


def duplicate_of_an_acknowledgement(history: History) -> None:
    acknowledge(history, FIRST, 4)
    send(history, SECOND, OPEN)
    see(history, 4, SECOND, 2)
    see(history, 5, FIRST, 2)


def inconsistent(history: History) -> None:
    send(history, FIRST, OPEN)
    send(history, SECOND, OPEN)
    see_live(history, 4, FIRST, 2)
    see_finally(history, 4, SECOND, 2)
    see_finally(history, 5, FIRST, 2)


def reordered_within_a_producer(history: History) -> None:
    send(history, FIRST, OPEN)
    send(history, FIRST, OPEN)
    see(history, 4, FIRST, 3)
    see(history, 5, FIRST, 2)


def reordered_in_time(history: History) -> None:
    acknowledge(history, FIRST, 5, from_s=50.0)
    acknowledge(history, SECOND, 4, from_s=60.0)
    see(history, 4, SECOND, 2)
    see(history, 5, FIRST, 2)


def refused_but_seen(history: History) -> None:
    send(history, FIRST, REFUSED)
    see(history, 4, FIRST, 2)


def never_sent(history: History) -> None:
    see(history, 4, FIRST, 2)


def of_nobody(history: History) -> None:
    see(history, 4, 7, 0)


def of_another_partition(history: History) -> None:
    history.read(CONSUMER, 0, 4, record_value(FIRST, 1, 2, 20))


def not_a_record_of_ours(history: History) -> None:
    history.read_finally(0, 4, b"\x00\x01")


def skipped(history: History) -> None:
    send(history, FIRST, OPEN)
    see_live(history, 5, FIRST, 2)
    see_finally(history, 4, FIRST, 2)


def stepped_back(history: History) -> None:
    see_live(history, 2, FIRST, 1)
    see_live(history, 3, SECOND, 1)


def stalled(history: History) -> None:
    acknowledge(history, FIRST, 4)
    see_finally(history, 4, FIRST, 2)


def unequal_copies(history: History) -> None:
    history.copies = {0: {1: "same", 2: "same", 3: "other"}}


def complaint(history: History) -> None:
    history.complaints.append("first gave up")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lost, Kind.LOST),
        (unseen, Kind.UNSEEN),
        (vanished, Kind.VANISHED),
        (duplicate, Kind.DUPLICATE),
        (duplicate_of_an_acknowledgement, Kind.DUPLICATE),
        (inconsistent, Kind.INCONSISTENT),
        (reordered_within_a_producer, Kind.REORDERED),
        (reordered_in_time, Kind.REORDERED),
        (refused_but_seen, Kind.REFUSED_BUT_SEEN),
        (never_sent, Kind.MADE_UP),
        (of_nobody, Kind.MADE_UP),
        (of_another_partition, Kind.MADE_UP),
        (not_a_record_of_ours, Kind.MADE_UP),
        (skipped, Kind.SKIPPED),
        (stepped_back, Kind.STEPPED_BACK),
        (stalled, Kind.STALLED),
        (unequal_copies, Kind.UNEQUAL_COPIES),
        (complaint, Kind.COMPLAINT),
    ],
)
def test_an_anomaly_is_found(spoil: Callable[[History], None], kind: Kind) -> None:
    history = clean_history()
    spoil(history)
    assert kind in kinds(history)


def test_an_anomaly_names_the_record_and_who_saw_it() -> None:
    history = clean_history()
    lost(history)
    assert "lost: record 2 of first, acknowledged at offset 3; the final read ends at 4 (partition 0)" in [
        str(anomaly) for anomaly in check(history)
    ]


def test_a_record_that_is_gone_from_the_end_of_the_log_is_both_unseen_and_vanished() -> None:
    history = clean_history()
    acknowledge(history, FIRST, 4)
    see_live(history, 4, FIRST, 2)
    assert kinds(history) == {Kind.UNSEEN, Kind.VANISHED}
