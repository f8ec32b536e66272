"""Checks the health of a cluster with Metadata requests to its brokers."""

from collections.abc import Iterable, Mapping

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.layout import ClusterLayout, PartitionLayout
from odradek.client.security import NOTHING, Security
from odradek.testing.errors import ClusterError

RESPONSE_SECONDS_MAX = 2.0


def find_problem(brokers: Mapping[int, Address], security: Security = NOTHING) -> str:
    """Describe why the cluster is not healthy, or return an empty string.

    It is healthy if each of these brokers knows exactly these brokers, every partition has a leader, and all replicas
    on them are in sync.
    """
    if not brokers:
        return "no broker is running"
    for node_id, address in brokers.items():
        try:
            layout = _request_layout(address, security)
        except (ClientError, KafkaError) as error:
            return f"broker {node_id} does not respond: {error}"
        if layout.brokers.keys() != brokers.keys():
            return f"broker {node_id} knows brokers {sorted(layout.brokers)}, but {sorted(brokers)} are running"
        for topic in layout.topics.values():
            for partition in topic.partitions:
                if problem := _find_partition_problem(partition, brokers):
                    return f"partition {topic.name}-{partition.id} {problem}, according to broker {node_id}"
    return ""


def leader_of(brokers: Iterable[Address], topic: str, partition: int, security: Security = NOTHING) -> int:
    """Return the leader according to the broker with the newest leader epoch. Raises ClusterError."""
    newest = (-1, -1)
    for address in brokers:
        try:
            found = _request_layout(address, security).topics.get(topic)
        except (ClientError, KafkaError):
            continue
        if found is not None and partition < len(found.partitions):
            newest = max(newest, (found.partitions[partition].leader_epoch, found.partitions[partition].leader))
    if newest[1] < 0:
        raise ClusterError(f"partition {topic}-{partition} has no leader")
    return newest[1]


def _request_layout(address: Address, security: Security) -> ClusterLayout:
    with Cluster([address], timeout_s=RESPONSE_SECONDS_MAX, security=security) as client:
        return client.layout(None)


def _find_partition_problem(partition: PartitionLayout, brokers: Mapping[int, Address]) -> str:
    alive = brokers.keys() & set(partition.replicas)
    if not alive:
        return ""
    if partition.leader not in alive:
        return "has no leader"
    missing = alive - set(partition.isr)
    return f"is not in sync on {sorted(missing)}" if missing else ""
