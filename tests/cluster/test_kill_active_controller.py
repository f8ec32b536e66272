"""Repeated kill -9 of the active controller while clients change metadata: no acknowledged change is lost.

Every test run does the short form. `make chaos CONTROLLER_KILLS=100` is the long form: it also checks the time without
an active controller against its targets, so nothing else should run at the same time.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.client.admin import Admin
from tests.cluster.failover import kill_and_time, median_and_p99, summary
from tests.cluster.metadata_load import MetadataLoad
from tests.cluster.metadata_views import assert_equal_everywhere, assert_holds
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of

KILLS_IN_SHORT = 3
KILLS = int(os.environ.get("ODRADEK_CONTROLLER_KILLS", str(KILLS_IN_SHORT)))
LAYOUTS = {
    "combined": roles_of(combined=(1, 2, 3)),
    "separated": roles_of(controllers=(1, 2, 3), brokers=(4, 5)),
    "dynamic voters": roles_of(combined=(1, 2, 3)),
}

MEDIAN_S_MAX = 0.5
P99_S_MAX = 1.0
SHORT_FACTOR = 6.0
"""Test computers are busy with other work."""


@pytest.fixture(
    params=[
        "combined",
        *(pytest.param(name, marks=pytest.mark.tier("proof")) for name in LAYOUTS if name != "combined"),
    ]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealCluster]:
    dynamic = request.param == "dynamic voters"
    with real_cluster(tmp_path, LAYOUTS[request.param], dynamic_voters=dynamic) as cluster:
        yield cluster


@pytest.mark.timeout(max(300, KILLS * 20))
def test_acknowledged_metadata_survives_kills_of_the_active_controller(
    cluster: RealCluster, measured: Callable[[str], None]
) -> None:
    with cluster.client() as client:
        Admin(client).create_topic("watched", partitions=1, replication_factor=1)
    seconds = []
    with MetadataLoad([node.address for node in cluster.brokers]) as load:
        for number in range(KILLS):
            victim, epoch = cluster.leadership()
            before = load.acknowledged
            seconds.append(kill_and_time(cluster, victim, "watched", 1_000_000 + number))
            successor, its_epoch = cluster.leadership()
            assert successor is not victim
            assert its_epoch > epoch
            victim.start()
            cluster.wait_until_whole()
            assert load.acknowledged > before, "the clients make no progress"
    view = assert_equal_everywhere(cluster)
    assert_holds(view, load.expected)
    assert view["watched"][2] == str(1_000_000 + KILLS - 1)
    unknown = sum(len(expected.unknown) for expected in load.expected)
    measured(f"{summary(seconds)}; {load.acknowledged} changes acknowledged, {unknown} of unknown outcome")
    factor = SHORT_FACTOR if KILLS <= KILLS_IN_SHORT else 1.0
    median, p99 = median_and_p99(seconds)
    assert median <= MEDIAN_S_MAX * factor and p99 <= P99_S_MAX * factor, summary(seconds)
