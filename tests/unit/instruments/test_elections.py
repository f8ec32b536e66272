"""Counting elections by the partition's previous state, and ISR changes."""

from odradek.instruments.elections import ElectionCounts
from odradek.instruments.replication import IsrCounts


def test_elections_are_counted_as_clean_eligible_or_unclean() -> None:
    counts = ElectionCounts()
    counts.count_election(2, in_sync=(1, 2), eligible=())
    counts.count_election(3, in_sync=(1,), eligible=(3,))
    counts.count_election(4, in_sync=(1,), eligible=(3,))
    assert (counts.total, counts.from_eligible, counts.unclean) == (3, 1, 1)


def test_isr_changes_are_counted() -> None:
    counts = IsrCounts()
    counts.count_change(3, 2)
    counts.count_change(2, 3)
    counts.count_change(1, 3)
    counts.count_change(2, 2)
    assert (counts.shrinks, counts.expands, counts.failed_updates) == (1, 2, 0)
