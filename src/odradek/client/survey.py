"""A survey of the whole cluster: brokers, placement of replicas, and their sizes."""

from collections.abc import Callable
from dataclasses import dataclass

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.layout import PartitionLayout, TopicLayout
from odradek.client.log_dirs import Sizes, sizes_on
from odradek.client.membership import Member, brokers
from odradek.client.placement import Place, PlacedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    cluster_id: str
    members: dict[int, Member]
    """All registered brokers."""
    topics: dict[str, TopicLayout]
    sizes: dict[int, Sizes]
    """By broker, for online brokers only."""

    @property
    def online(self) -> frozenset[int]:
        return frozenset(self.sizes)

    @property
    def places(self) -> dict[int, Place]:
        """The host is the one that this client's listener advertises; names of hosts have no case."""
        return {member.id: Place(member.rack, member.address.host.lower()) for member in self.members.values()}

    @property
    def partitions(self) -> dict[TopicPartition, PartitionLayout]:
        return {
            TopicPartition(topic.name, layout.id): layout
            for topic in self.topics.values()
            for layout in topic.partitions
        }

    def size_of(self, partition: TopicPartition, layout: PartitionLayout) -> int:
        """Return the leader's size, or that of the largest replica; 0 if no broker with a replica is online."""
        known = {broker: held[partition] for broker, held in self.sizes.items() if partition in held}
        return known.get(layout.leader, max(known.values(), default=0))

    def placed_partitions(self) -> list[PlacedPartition]:
        return [
            PlacedPartition(partition=name, replicas=layout.replicas, size_bytes=self.size_of(name, layout))
            for name, layout in sorted(self.partitions.items())
        ]


def survey(cluster: Cluster, *, on_response: Callable[[int], None] = lambda amount: None) -> Survey:
    found = brokers(cluster)
    members = found.nodes
    layout = cluster.retry("listing topics", lambda: cluster.layout(None))
    online = sorted(node_id for node_id in layout.brokers if node_id in members and not members[node_id].is_fenced)
    sizes = sizes_on(cluster, online, on_response=on_response)
    return Survey(cluster_id=found.cluster_id, members=members, topics=layout.topics, sizes=sizes)
