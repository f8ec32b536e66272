"""Restarting a query under fire, without Spark."""

from typing import Any

import pytest

from tests.spark.cluster_kills import run_until

pytestmark = pytest.mark.spark


class Ended:
    isActive = False

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return self._error


class Running:
    isActive = True


def test_query_that_ends_while_its_rows_are_counted_is_not_started_again() -> None:
    counts = iter([False, True])
    ended: Any = Ended()
    assert run_until(lambda: next(counts), ended, start=lambda: pytest.fail("started again")) == (ended, "")


def test_failed_query_is_started_again_as_the_same_kind() -> None:
    counts = iter([False, False, True])
    failed: Any = Ended(RuntimeError("worker lost\nat line 1"))
    last: Any = Running()
    assert run_until(lambda: next(counts), failed, start=lambda: last) == (last, "worker lost")
