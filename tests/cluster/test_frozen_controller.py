"""SIGSTOP of the active controller, and SIGCONT: another one takes over, and the one that wakes up has nothing to say.

A frozen process keeps its connections and its ports: nothing tells it from a machine that is cut off, and Kafka's own
timeouts decide. ODRADEK_FROZEN_SECONDS=30, or `make chaos CONTROLLER_KILLS=100`, is the long form.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.client.admin import Admin
from tests.cluster.failover import change_setting_through
from tests.cluster.metadata_load import MetadataLoad
from tests.cluster.metadata_views import assert_equal_everywhere, assert_holds
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of, wait_for

FROZEN_S = float(os.environ.get("ODRADEK_FROZEN_SECONDS", "3"))
FETCH_TIMEOUT_S = 5.0
"""The new leader may be kept waiting by a busy machine, and is not deposed for it."""
NEW_LEADER_S_MAX = 30.0
"""The fetch timeout, an election or two, and a busy machine."""


@pytest.mark.timeout(300 + 2 * FROZEN_S)
def test_the_active_controller_freezes_and_wakes(tmp_path: Path) -> None:
    patient = {"controller.quorum.fetch.timeout.ms": str(int(FETCH_TIMEOUT_S * 1000))}
    with (
        real_cluster(tmp_path, roles_of(combined=(1, 2, 3)), properties=patient) as cluster,
        ThreadPoolExecutor(1) as thread,
    ):
        frozen = cluster.active_controller()
        others = [node_id for node_id in cluster.nodes if node_id != frozen.node_id]
        with cluster.client() as client:
            Admin(client).create_topic("asked-of-the-frozen", partitions=1, replication_factor=1)
        with MetadataLoad([cluster.nodes[node_id].address for node_id in others], timeout_s=60.0) as load:
            frozen.freeze()
            frozen_at = time.monotonic()
            waiting = thread.submit(change_setting_through, frozen, "asked-of-the-frozen", 1_234_567)
            wait_for("a new leader", lambda: _leader(cluster, others) != frozen.node_id, NEW_LEADER_S_MAX)
            before = load.acknowledged
            wait_for("changes under the new leader", lambda: load.acknowledged > before + 10)
            time.sleep(max(0.0, FROZEN_S - (time.monotonic() - frozen_at)))
            assert not waiting.done()
            epoch = cluster.quorum_status(*others).leader_epoch
            frozen.wake()
            # It was asked while it took itself for the active controller: the answer is to hold all the same.
            waiting.result(timeout=30)
            cluster.wait_until_whole()
        woken = cluster.quorum_status(frozen.node_id)
        assert woken.leader_id != frozen.node_id
        assert woken.leader_epoch == epoch, "the one that woke up brought about an election"
        view = assert_equal_everywhere(cluster)
        assert_holds(view, load.told)
        assert view["asked-of-the-frozen"][2] == "1234567"


def _leader(cluster: RealCluster, asked: list[int]) -> int:
    return cluster.active_controller(*asked).node_id
