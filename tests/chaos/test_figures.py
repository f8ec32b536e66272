"""Gaps between acknowledgements: of all producers, of one producer, and by fault."""

import json

import pytest

from tests.chaos.figures import longest_gap_s, longest_gaps_s, outcomes
from tests.chaos.history import OPEN, REJECTED, History


@pytest.fixture
def history() -> History:
    history = History(2)
    first, second = history.new_producer("first"), history.new_producer("second")
    for producer, partition, at_s, outcome in (
        (first, 0, 1.0, 0),
        (second, 0, 2.0, 1),
        (first, 0, 4.0, 2),
        (first, 1, 1.0, 0),
        (first, 1, 1.5, OPEN),
        (second, 1, 1.7, REJECTED),
        (second, 1, 2.5, 1),
    ):
        sends = history.sends[producer, partition]
        sends.end(sends.begin(0.0), outcome, at_s)
    return history


def test_outcomes_are_counted(history: History) -> None:
    assert outcomes(history) == {"sent": 7, "acknowledged": 5, "rejected": 1, "unknown": 1}


def test_longest_gap_is_between_two_acknowledgements_of_one_partition(history: History) -> None:
    assert longest_gap_s(history) == 2.0
    assert longest_gap_s(history, 0) == 3.0
    assert longest_gap_s(History(1)) == 0.0


def test_gap_is_attributed_to_the_last_fault_before_its_end(history: History) -> None:
    assert longest_gaps_s(history, [(0.0, "start"), (2.2, "kill"), (3.0, "pause")]) == {
        "pause": 2.0,
        "kill": 1.5,
        "start": 1.0,
    }
    assert json.dumps(longest_gaps_s(history, [])) == "{}"
