"""A snapshot of the whole cluster as plain values, from which all pages are built."""

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
    """None if the broker does not report the quorum."""
    disks: Mapping[int, tuple[LogDir, ...]] = field(default_factory=dict)
    """By broker, without unresponsive brokers."""
    traffic: Traffic = NO_TRAFFIC
    reassignments: tuple[Reassignment, ...] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas of topics with missing replicas only."""
    features: Mapping[str, int] = field(default_factory=dict)
    down_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Brokers that went down while the console was watching, and when."""

    unresponsive_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Brokers that the probe reports as unresponsive; the controller may not have fenced them yet."""

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
        """The input for planning reassignments."""
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
        """Registered brokers that are fenced or missing from Metadata."""
        return sorted(
            member.id for member in self.members.values() if member.is_fenced or member.id not in self.reachable
        )

    @property
    def unresponsive(self) -> list[int]:
        """Unresponsive brokers that the controller has not fenced yet."""
        return sorted(set(self.unresponsive_since_ms) - set(self.down))

    def needed_in_sync(self, topic: str, layout: PartitionLayout) -> int:
        """Number of in-sync replicas that acks=all requires, at most the replication factor."""
        return min(self.min_isr.get(topic, 1), len(layout.replicas))
