"""The figures of a run's transactions."""

from tests.chaos.transactions.figures import figures, rows
from tests.chaos.transactions.history import Outcome, TransactionHistory, record_value


def test_outcomes_and_gaps_are_counted() -> None:
    history = TransactionHistory(1)
    writer, copier = history.new_writer("writer"), history.new_writer("copier", copies=True)
    for ended_at_s, outcome in (
        (1.0, Outcome.COMMITTED),
        (2.0, Outcome.ABORTED),
        (4.5, Outcome.COMMITTED),
        (5.0, Outcome.UNKNOWN),
    ):
        history.end(writer, history.begin(writer, (0,), 0.0), outcome, ended_at_s)
    history.end(copier, history.begin(copier, (1,), 0.0), Outcome.COMMITTED, 6.0)
    history.begin(writer, (0,), 0.0)
    history.replace()
    history.hang()
    history.read_finally(0, 0, record_value(writer, 0, 0, 0))
    history.read_finally(1, 0, record_value(copier, 0, 0, 1, record_value(writer, 0, 0, 0)))
    found = figures(history)
    assert (found.begun, found.committed, found.aborted, found.unknown) == (6, 3, 2, 1)
    assert (found.replaced, found.hung, found.read_finally, found.copied) == (1, 1, 1, 1)
    assert found.longest_gap_s_of == {"writer": 3.5, "copier": 0.0}
    assert ("longest gap between commits of writer", "3.50 s") in rows(found)


def test_transaction_counts_as_aborted_until_its_commit_is_requested() -> None:
    history = TransactionHistory(1)
    writer = history.new_writer("writer")
    number = history.begin(writer, (0,), 0.0)
    assert history.transactions[writer][number].outcome is Outcome.ABORTED
    history.request_commit(writer, number)
    assert history.transactions[writer][number].outcome is Outcome.UNKNOWN
