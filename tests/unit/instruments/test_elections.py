"""Who was elected, judged by what the partition was before."""

from odradek.instruments.elections import ElectionCounts
from odradek.instruments.replication import IsrCounts


def test_elections_are_clean_from_the_eligible_or_unclean() -> None:
    counts = ElectionCounts()
    counts.elected(2, in_sync=(1, 2), eligible=())
    counts.elected(3, in_sync=(1,), eligible=(3,))
    counts.elected(4, in_sync=(1,), eligible=(3,))
    assert (counts.total, counts.from_eligible, counts.unclean) == (3, 1, 1)


def test_changes_of_the_replicas_in_sync() -> None:
    counts = IsrCounts()
    counts.committed(3, 2)
    counts.committed(2, 3)
    counts.committed(1, 3)
    counts.committed(2, 2)
    assert (counts.shrinks, counts.expands, counts.failed_updates) == (1, 2, 0)
