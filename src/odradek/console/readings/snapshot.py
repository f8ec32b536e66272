"""One look at a whole cluster, as plain values: what all pages are made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from odradek.base.ids import TopicPartition
from odradek.client.disks import LogDir
from odradek.client.layout import PartitionLayout, TopicLayout
from odradek.client.membership import Member
from odradek.client.quorum import QuorumStatus
from odradek.client.reassignments import Reassignment
from odradek.client.survey import Survey
from odradek.client.traffic import Traffic

NO_TRAFFIC = Traffic(rates={}, unavailable={})


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    at_ms: int
    cluster_id: str
    members: Mapping[int, Member]
    """Every registered broker, fenced ones too."""
    reachable: frozenset[int]
    """Brokers that Metadata names: those that serve clients."""
    topics: Mapping[str, TopicLayout]
    quorum: QuorumStatus | None = None
    """None: this broker does not tell."""
    disks: Mapping[int, tuple[LogDir, ...]] = field(default_factory=dict)
    """By broker; those that did not answer are left out."""
    traffic: Traffic = NO_TRAFFIC
    reassignments: tuple[Reassignment, ...] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """Of topics that miss a replica: the others are in no danger of it."""
    features: Mapping[str, int] = field(default_factory=dict)
    down_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Brokers that went while somebody looked, and when."""

    unresponsive_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Brokers whose process has gone, as felt from here; the cluster may not have noticed yet."""

    @cached_property
    def partitions(self) -> dict[TopicPartition, PartitionLayout]:
        return {
            TopicPartition(topic.name, layout.id): layout
            for topic in self.topics.values()
            for layout in topic.partitions
        }

    @cached_property
    def sizes(self) -> dict[int, dict[TopicPartition, int]]:
        return {
            broker: {partition: size for one in dirs for partition, size in one.sizes.items()}
            for broker, dirs in self.disks.items()
        }

    @cached_property
    def survey(self) -> Survey:
        """The form in which moves are planned."""
        return Survey(
            cluster_id=self.cluster_id,
            members=dict(self.members),
            topics=dict(self.topics),
            sizes={broker: held for broker, held in self.sizes.items() if broker in self.reachable},
        )

    @cached_property
    def sizes_of_topics(self) -> dict[str, tuple[int, int]]:
        """Bytes without and with replicas."""
        one_copy: dict[str, int] = {}
        all_copies: dict[str, int] = {}
        largest: dict[TopicPartition, int] = {}
        for held in self.sizes.values():
            for partition, size in held.items():
                all_copies[partition.topic] = all_copies.get(partition.topic, 0) + size
                largest[partition] = max(largest.get(partition, 0), size)
        for partition, layout in self.partitions.items():
            of_leader = self.sizes.get(layout.leader, {}).get(partition)
            size = largest.get(partition, 0) if of_leader is None else of_leader
            one_copy[partition.topic] = one_copy.get(partition.topic, 0) + size
        return {topic: (size, all_copies.get(topic, 0)) for topic, size in one_copy.items()}

    @property
    def down(self) -> list[int]:
        """Brokers that are registered and do not serve."""
        return sorted(
            member.id for member in self.members.values() if member.is_fenced or member.id not in self.reachable
        )

    @property
    def unresponsive(self) -> list[int]:
        """Brokers that do not answer while the cluster still counts on them."""
        return sorted(set(self.unresponsive_since_ms) - set(self.down))

    def needed_in_sync(self, topic: str, layout: PartitionLayout) -> int:
        """New replication factor have to be in sync for acks=all: never more than there are."""
        return min(self.min_isr.get(topic, 1), len(layout.replicas))
