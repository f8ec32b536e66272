"""The whole cluster at a glance: who is there, which replicas lie where, and how large they are."""

from collections.abc import Callable
from dataclasses import dataclass

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.layout import PartitionLayout, TopicLayout
from odradek.client.log_dirs import Sizes, sizes_on
from odradek.client.membership import Member, brokers
from odradek.client.placement import PlacedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    cluster_id: str
    members: dict[int, Member]
    """Every registered broker."""
    topics: dict[str, TopicLayout]
    sizes: dict[int, Sizes]
    """By broker; of those only that are online."""

    @property
    def online(self) -> frozenset[int]:
        return frozenset(self.sizes)

    @property
    def racks(self) -> dict[int, str | None]:
        return {member.id: member.rack for member in self.members.values()}

    @property
    def partitions(self) -> dict[TopicPartition, PartitionLayout]:
        return {
            TopicPartition(topic.name, layout.id): layout
            for topic in self.topics.values()
            for layout in topic.partitions
        }

    def size_of(self, partition: TopicPartition, layout: PartitionLayout) -> int:
        """Of one whole copy: the leader's, or the largest there is. 0 if nobody who holds it can be asked."""
        known = {broker: held[partition] for broker, held in self.sizes.items() if partition in held}
        return known.get(layout.leader, max(known.values(), default=0))

    def placed(self) -> list[PlacedPartition]:
        return [
            PlacedPartition(partition=name, replicas=layout.replicas, size_bytes=self.size_of(name, layout))
            for name, layout in sorted(self.partitions.items())
        ]


def survey(cluster: Cluster, *, on_answer: Callable[[int], None] = lambda amount: None) -> Survey:
    found = brokers(cluster)
    members = found.nodes
    layout = cluster.retry("listing topics", lambda: cluster.layout(None))
    online = sorted(node_id for node_id in layout.brokers if node_id in members and not members[node_id].is_fenced)
    sizes = sizes_on(cluster, online, on_answer=on_answer)
    return Survey(cluster_id=found.cluster_id, members=members, topics=layout.topics, sizes=sizes)
