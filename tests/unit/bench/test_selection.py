"""`make bench ARGS=--only …` chooses suites and rows by name."""

import pytest

from bench.selection import NAMES, WORKLOADS, Selection, parse_selection
from bench.workloads import rounds
from bench.workloads.rows import ROWS


def test_everything_runs_by_default() -> None:
    assert Selection() == parse_selection(",".join(NAMES))
    assert Selection().has_all_rows


def test_rows_run_in_their_own_order_without_suites() -> None:
    chosen = parse_selection("limits, commits,produce_lz4")
    assert chosen == Selection((), ("produce_lz4", "commits", "limits"))
    assert not chosen.has_all_rows


def test_workloads_selects_all_rows() -> None:
    assert parse_selection(WORKLOADS) == Selection((), rounds.NAMES)


def test_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown: consum; known are one-broker, .*consume_lz4"):
        parse_selection("consum,commits")


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_every_row_compares_with_kafka() -> None:
    for row in ROWS:
        assert "kafka" in row.sides
        assert set(row.targets) <= set(row.sides)
