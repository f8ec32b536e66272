"""Which kind of run a seed chooses."""

from odradek.sim.scenarios import SCENARIOS, VOTERS_CHANGE, default_scenario


def test_a_hundred_seeds_choose_every_scenario_but_one() -> None:
    chosen = {default_scenario(seed).name for seed in range(100)}
    assert chosen == SCENARIOS.keys() - {VOTERS_CHANGE.name}


def test_the_default_scenario_of_a_seed_is_stable() -> None:
    names = [default_scenario(seed).name for seed in (0, 6, 17, 26, 27, 38, 49)]
    assert names == [
        *("process-crashes", "replicas-power-loss", "replicas-damaged", "replicas-apart"),
        *("replicas-deposed", "groups", "transactions"),
    ]
