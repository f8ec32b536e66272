"""Queries the eligible leaders and replica log ends of the partitions on a page."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.replica_state import Eligible, eligible_of, ends_of_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStates:
    eligible: Mapping[TopicPartition, Eligible] = field(default_factory=dict)
    """Empty if the cluster does not report it."""
    ends: Mapping[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """By broker."""

    def behind(self, partition: TopicPartition, leader: int, broker: int) -> int | None:
        """Number of offsets by which the replica is behind the leader; None if unknown."""
        here, there = self.ends.get(broker, {}).get(partition), self.ends.get(leader, {}).get(partition)
        return None if here is None or there is None else max(0, there - here)


def states_of_replicas(
    cluster: Cluster, replicas: Mapping[TopicPartition, Collection[int]], reachable: Collection[int]
) -> ReplicaStates:
    """Queries only the brokers in `reachable`."""
    if not replicas:
        return ReplicaStates()
    queried = {one: [broker for broker in brokers if broker in reachable] for one, brokers in replicas.items()}
    return ReplicaStates(
        eligible=_eligible(cluster, {one.topic for one in replicas}), ends=ends_of_replicas(cluster, queried)
    )


def _eligible(cluster: Cluster, topics: Collection[str]) -> dict[TopicPartition, Eligible]:
    try:
        return eligible_of(cluster, topics)
    except (KafkaError, ClientError):
        return {}
