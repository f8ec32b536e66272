"""Plain values of a Metadata response: brokers, topics, and the leaders of partitions."""

from dataclasses import dataclass
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.wire.schemas import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLayout:
    id: int
    leader: int
    """-1 if there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLayout:
    name: str
    id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionLayout, ...]
    """Sorted by id: 0, 1, 2, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    cluster_id: str | None
    controller_id: int
    brokers: dict[int, BrokerNode]
    topics: dict[str, TopicLayout]
    errors: dict[str, ErrorCode]
    """The error codes of requested topics that the broker did not describe."""


def layout_from(response: Message) -> ClusterLayout:
    return ClusterLayout(
        cluster_id=getattr(response, "cluster_id", None),
        controller_id=response.controller_id,
        brokers={
            broker.node_id: BrokerNode(id=broker.node_id, address=Address(broker.host, broker.port), rack=broker.rack)
            for broker in response.brokers
        },
        topics={topic.name: _topic(topic) for topic in response.topics if topic.error_code is ErrorCode.none},
        errors={topic.name: topic.error_code for topic in response.topics if topic.error_code is not ErrorCode.none},
    )


def _topic(topic: Message) -> TopicLayout:
    return TopicLayout(
        name=topic.name,
        id=getattr(topic, "topic_id", None),
        is_internal=topic.is_internal,
        partitions=tuple(sorted(map(_partition, topic.partitions), key=lambda partition: partition.id)),
    )


def _partition(partition: Message) -> PartitionLayout:
    return PartitionLayout(
        id=partition.partition_index,
        leader=partition.leader_id,
        leader_epoch=getattr(partition, "leader_epoch", -1),
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        offline=tuple(getattr(partition, "offline_replicas", ())),
    )
