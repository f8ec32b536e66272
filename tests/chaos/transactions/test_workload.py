"""The wait for the copiers ends with their work, or with their progress."""

from itertools import count

import pytest

pytestmark = pytest.mark.needs("confluent_kafka")


def test_backlog_may_take_longer_than_copiers_may_be_idle() -> None:
    from tests.chaos.transactions.workload import wait_until_copied

    copied = count()
    wait_until_copied(lambda: next(copied), 5, idle_s_max=0.25)
    assert next(copied) == 6, "read five times more after the first"


def test_copiers_without_progress_are_given_up() -> None:
    from tests.chaos.transactions.workload import wait_until_copied

    copied = iter([0, 1, *[2] * 1000])
    wait_until_copied(lambda: next(copied), 3, idle_s_max=0.25)
    assert len(list(copied)) > 900
