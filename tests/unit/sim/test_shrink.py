from collections.abc import Sequence

from odradek.sim.checkers.violation import Violation
from odradek.sim.faults import Fault
from odradek.sim.report import describe, replay_command
from odradek.sim.run import Result
from odradek.sim.shrink import shrink
from odradek.sim.trace import Event


def result(*violations: Violation, faults: int = 8, events: tuple[Event, ...] = ()) -> Result:
    return Result(
        seed=7,
        scenario="power-loss",
        faults=tuple(
            Fault(kind="reset", node="node1", at_seconds=place, lasts_seconds=1, peer="reader")
            for place in range(faults)
        ),
        violations=violations,
        trace_hash="",
        simulated_seconds=1.0,
        events=events,
    )


BROKEN = Violation("1 acknowledged records are readable", "it is not", 3.0)


def test_shrinking_keeps_the_necessary_faults() -> None:
    needed = {2, 5}

    def run(faults: Sequence[int]) -> Result:
        return result(BROKEN) if needed <= set(faults) else result()

    assert shrink(result(BROKEN), run)[0] == [2, 5]


def test_shrinking_may_leave_no_faults() -> None:
    assert shrink(result(BROKEN), lambda _: result(BROKEN))[0] == []


def test_shrinking_ignores_violations_of_other_rules() -> None:
    other = Violation("23", "stuck", 1.0)
    assert shrink(result(BROKEN, faults=3), lambda faults: result(BROKEN if len(faults) == 3 else other))[0] == [
        0,
        1,
        2,
    ]


def test_shrinking_stops_after_a_number_of_runs() -> None:
    runs = 0

    def run(faults: Sequence[int]) -> Result:
        nonlocal runs
        runs += 1
        return result()

    assert len(shrink(result(BROKEN, faults=1000), run)[0]) == 1000
    assert runs < 100


def test_a_report_fits_on_one_page() -> None:
    violation = Violation("1 acknowledged records are readable", "orders0-1 is not there", 3.0)
    events = (
        Event(1.0, "producer0a", "receives that orders0-0 is at 3", True),
        Event(1.5, "producer1a", "receives that orders0-1 is at 4", True),
        Event(2.0, "node1", "loses power", True),
        Event(2.1, "node1", "disk: sync", False),
        Event(4.0, "node1", "serves", True),
    )
    text = "\n".join(describe(result(violation, events=events), [1, 3]))
    assert "orders0-1 is not there" in text
    assert "2 of 8" in text
    assert "producer1a" in text
    assert "loses power" in text
    for hidden in ("producer0a", "disk: sync", "serves"):
        assert hidden not in text


def test_a_report_has_the_command_to_repeat_it() -> None:
    assert replay_command(7, "power-loss", [1, 3], "torn-tail-kept") == (
        "python -m odradek.sim --seed 7 --scenario power-loss --trace --faults 1,3 --plant torn-tail-kept"
    )
    assert replay_command(7, "power-loss", [], None).endswith("--faults none")
