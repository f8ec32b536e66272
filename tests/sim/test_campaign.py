"""A campaign of many seeds continues where it was interrupted and reports the seeds that failed."""

from pathlib import Path

import pytest

from tests.sim import campaign as runner
from tests.sim.campaign import ALL_PASSED, SOME_FAILED, UNFINISHED, Campaign, Piece, run_piece

pytestmark = pytest.mark.tier("fast")

SCENARIOS = ("power-loss", "elections")


def test_campaign_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "results.jsonl"
    first = Campaign(file, SCENARIOS, 0, 30)
    assert [(one.scenario, one.first, one.count) for one in first.missing()] == [
        *(("power-loss", 0, 20), ("elections", 0, 20)),
        *(("power-loss", 20, 10), ("elections", 20, 10)),
    ]
    first.add(Piece("power-loss", 0, 20))
    with file.open("a") as cut_off:
        cut_off.write('{"scenario": "elec')
    second = Campaign(file, SCENARIOS, 0, 30)
    assert next((one.scenario, one.first) for one in second.missing()) == ("elections", 0)
    assert second.status == UNFINISHED
    for piece in second.missing():
        second.add(piece)
    assert second.status == ALL_PASSED
    assert Campaign(file, SCENARIOS, 0, 30).status == ALL_PASSED
    # A larger campaign runs the piece that was shorter again.
    assert [one.first for one in Campaign(file, SCENARIOS[:1], 0, 40).missing()] == [20]


def test_failed_seeds_are_reported_with_their_command(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    Campaign(file, SCENARIOS, 0, 20).add(Piece("elections", 0, 20, ((7, "a rule: broken"),), 10.0))
    campaign = Campaign(file, SCENARIOS, 0, 20)
    lines = list(campaign.report())
    assert "seed 7, elections: a rule: broken" in lines
    assert any("--seed 7 --scenario elections" in line for line in lines)
    assert campaign.status == SOME_FAILED


def test_failure_of_the_simulator_is_a_failure_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(seed: int, *others: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(runner, "run_one", break_down)
    assert run_piece(Piece("elections", 3, 1)).failures == ((3, "cannot be run: ZeroDivisionError: broken"),)
