"""Rates and estimates, by a clock of the test's own."""

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.display import summary
from odradek.pipelines.jobs.progress import Pace

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def test_rates_and_remaining_time() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    begun = pace.progress({ZERO: 5}, {ZERO: 10, ONE: 20})
    assert (begun.lag, begun.rows_per_second, begun.seconds_left) == (25, None, None)
    now = 102.0
    pace.add(rows=8, dead_letters=2)
    progress = pace.progress({ZERO: 10, ONE: 5}, {ZERO: 10, ONE: 20})
    assert (progress.rows, progress.dead_letters, progress.batches) == (8, 2, 1)
    assert (progress.rows_per_second, progress.lag, progress.seconds_left) == (5.0, 15, 3.0)
    assert progress.to_json()["partitions"][1] == {"partition": 1, "offset": 5, "end": 20, "lag": 15}


def test_a_batch_without_rows_has_no_rate() -> None:
    pace = Pace(lambda: 1.0)
    pace.add(rows=0, dead_letters=0)
    assert pace.progress({}, {ZERO: 0}).seconds_left is None


def test_summary_counts_rows_in_words() -> None:
    pace = Pace(lambda: 1.0)
    assert summary(pace.progress({}, {})) == "0 rows, lag 0"
    pace.add(rows=1, dead_letters=1)
    assert summary(pace.progress({}, {})).startswith("1 row, 1 dead letter")
