"""Config changes through one given broker, and the time without acknowledged changes after kill -9 of a controller."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack

from odradek.base.errors import ErrorCode
from odradek.client.admin import ResourceType
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.cluster.metadata_load import SETTING
from tests.cluster.real_cluster import Member, RealCluster

RESPONSE_S_MAX = 60.0
RETRY_S = 0.005


def kill_and_time(cluster: RealCluster, victim: Member, topic: str, value: int) -> float:
    """Request a change from every surviving broker as soon as the victim is dead; the first acknowledgement counts.

    The connections are opened beforehand, so that the time of the controllers is measured and not that of the clients.
    """
    survivors = [node for node in cluster.brokers if node.is_running and node is not victim]
    with ExitStack() as stack, ThreadPoolExecutor(len(survivors)) as threads:
        connections = []
        for node in survivors:
            client = stack.enter_context(Cluster([node.address], timeout_s=RESPONSE_S_MAX))
            client.layout()
            connections.append(client.connection(node.address))
        killed_at = time.monotonic()
        victim.kill()
        requested = [threads.submit(change_setting, connection, topic, value) for connection in connections]
        first = min(one.result() for one in wait(requested, RESPONSE_S_MAX, return_when=FIRST_COMPLETED).done)
        return first - killed_at


def change_setting_through(node: Member, topic: str, value: int) -> float:
    connection = Connection(node.address, client_id="one-way", timeout_s=RESPONSE_S_MAX)
    try:
        return change_setting(connection, topic, value)
    finally:
        connection.close()


def change_setting(connection: Connection, topic: str, value: int) -> float:
    """Return the monotonic time of the acknowledgement."""

    def build(chosen: Schema) -> Message:
        config = chosen.new("AlterableConfig", name=SETTING, config_operation=0, value=str(value))
        resource = chosen.new(
            "AlterConfigsResource", resource_type=int(ResourceType.TOPIC), resource_name=topic, configs=(config,)
        )
        return chosen.new("IncrementalAlterConfigsRequest", resources=(resource,), validate_only=False)

    while True:
        response = connection.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, timeout_s=RESPONSE_S_MAX).responses[0]
        if response.error_code is ErrorCode.none:
            return time.monotonic()
        assert response.error_code.retriable, response
        time.sleep(RETRY_S)


def median_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """With few values the 99th percentile is the largest."""
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def summary(seconds: Sequence[float]) -> str:
    median, p99 = median_and_p99(seconds)
    return (
        f"new active controller after {len(seconds)} kills: median {median * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, "
        f"lowest {min(seconds) * 1000:.0f}, highest {max(seconds) * 1000:.0f}"
    )
