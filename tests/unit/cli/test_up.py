"""The number of brokers that `odradek up` starts."""

import os

import pytest

from odradek.cli.up import parse_broker_count
from odradek.local.cores import count_usable_cores
from odradek.local.topology import BrokerCount


def test_auto_is_one_broker_per_core_that_this_process_may_use() -> None:
    assert parse_broker_count("auto") == BrokerCount(count_usable_cores(), is_minimum=True)
    assert parse_broker_count("3") == BrokerCount(3)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_cores_are_those_of_the_affinity() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert count_usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert count_usable_cores() == len(before)
