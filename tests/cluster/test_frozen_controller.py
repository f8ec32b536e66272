"""SIGSTOP and SIGCONT of the active controller: another controller takes over, and the woken one does not disturb it.

A frozen process keeps its connections and ports and looks like a partitioned computer, so Kafka's own timeouts
decide. ODRADEK_FROZEN_SECONDS=30, or `make chaos CONTROLLER_KILLS=100`, is the long form.
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
"""Long enough that a busy computer does not cause another election."""
NEW_LEADER_S_MAX = 30.0
"""The fetch timeout, one or two elections, and a busy computer."""


@pytest.mark.timeout(300 + 2 * FROZEN_S)
def test_frozen_active_controller_is_replaced_and_rejoins_without_an_election(tmp_path: Path) -> None:
    patient = {"controller.quorum.fetch.timeout.ms": str(int(FETCH_TIMEOUT_S * 1000))}
    with (
        real_cluster(tmp_path, roles_of(combined=(1, 2, 3)), properties=patient) as cluster,
        ThreadPoolExecutor(1) as thread,
    ):
        frozen = cluster.active_controller()
        others = [node_id for node_id in cluster.nodes if node_id != frozen.node_id]
        with cluster.client() as client:
            Admin(client).create_topic("sent-to-the-frozen", partitions=1, replication_factor=1)
        with MetadataLoad([cluster.nodes[node_id].address for node_id in others], timeout_s=60.0) as load:
            frozen.freeze()
            frozen_at = time.monotonic()
            waiting = thread.submit(change_setting_through, frozen, "sent-to-the-frozen", 1_234_567)
            wait_for("a new leader", lambda: _leader(cluster, others) != frozen.node_id, NEW_LEADER_S_MAX)
            before = load.acknowledged
            wait_for("changes under the new leader", lambda: load.acknowledged > before + 10)
            time.sleep(max(0.0, FROZEN_S - (time.monotonic() - frozen_at)))
            assert not waiting.done()
            epoch = cluster.quorum_status(*others).leader_epoch
            frozen.wake()
            # The frozen node received this request as active controller: once acknowledged, the change must hold.
            waiting.result(timeout=30)
            cluster.wait_until_whole()
        woken = cluster.quorum_status(frozen.node_id)
        assert woken.leader_id != frozen.node_id
        assert woken.leader_epoch == epoch, "the woken controller caused an election"
        view = assert_equal_everywhere(cluster)
        assert_holds(view, load.expected)
        assert view["sent-to-the-frozen"][2] == "1234567"


def _leader(cluster: RealCluster, node_ids: list[int]) -> int:
    return cluster.active_controller(*node_ids).node_id
