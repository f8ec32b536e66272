"""The report of `make bench-stalls`: the longest stall without waits for a processor, and its cause."""

from typing import Any

from bench.stalls import Run, longest_milliseconds, row_of


def stall(milliseconds: float, waited: float, *frames: str) -> dict[str, Any]:
    return {
        "milliseconds": milliseconds,
        "waited_for_processor_milliseconds": waited,
        "loop": list(frames),
        "threads": [],
    }


def test_longest_stall_leaves_out_waits_for_a_processor() -> None:
    assert longest_milliseconds([stall(90, 80), stall(30, 5)]) == 25


def test_no_stall_is_the_shortest() -> None:
    assert longest_milliseconds([]) == 0
    assert row_of("with numba", Run([], True, True)) == "| with numba | yes | yes | 0 | 0 ms | `none` | ≤ 50 ms | met |"


def test_row_names_the_cause_of_the_longest_stall() -> None:
    waiting = stall(90, 80, "/x/odradek/wire/c.py:3 h")
    stalls = [stall(30, 0, "/x/odradek/wire/a.py:1 f"), stall(70, 10, "/x/odradek/storage/b.py:2 g"), waiting]
    expected = "| with numba | yes | **no** | 2 | 60 ms | `event loop: storage/b.py:2 g` | ≤ 50 ms | **missed** |"
    assert row_of("with numba", Run(stalls, True, False)) == expected
