"""Which kind of run a seed chooses."""

from odradek.sim.scenarios import (
    HOSTS,
    RUNNING_BROKERS,
    SCENARIOS,
    SECURITY,
    SLOW_READERS,
    VOTERS_CHANGE,
    default_scenario,
)

ONLY_BY_NAME = {VOTERS_CHANGE.name, RUNNING_BROKERS.name, HOSTS.name, SLOW_READERS.name, SECURITY.name}


def test_a_hundred_seeds_choose_every_scenario_but_those_chosen_by_name() -> None:
    chosen = {default_scenario(seed).name for seed in range(100)}
    assert chosen == SCENARIOS.keys() - ONLY_BY_NAME


def test_the_default_scenario_of_a_seed_is_stable() -> None:
    names = [default_scenario(seed).name for seed in (0, 6, 17, 26, 27, 38, 49)]
    assert names == [
        *("process-crashes", "replicas-power-loss", "replicas-damaged", "replicas-apart"),
        *("replicas-deposed", "groups", "transactions"),
    ]
