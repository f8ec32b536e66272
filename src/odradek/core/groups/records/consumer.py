"""Records of consumer groups, whose assignment the coordinator computes (KIP-848)."""

from dataclasses import field
from typing import ClassVar
from uuid import UUID

from odradek.base.record_form import NestedForm, form
from odradek.base.values import named_value
from odradek.core.groups.records.frame import RecordKey, RecordValue


@named_value
class ConsumerGroupMetadataKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 3

    group_id: str = field(metadata=form("string"))


@named_value
class ConsumerGroupMetadataValue(RecordValue):
    epoch: int = field(metadata=form("int32"))
    metadata_hash: int = field(default=0, metadata=form("int64", tag=0))


@named_value
class ConsumerGroupPartitionMetadataKey(RecordKey):
    """No longer written by Kafka, which keeps a hash in the group's metadata instead; only deleted."""

    KEY_VERSION: ClassVar[int] = 4

    group_id: str = field(metadata=form("string"))


@named_value
class PartitionRacks(NestedForm):
    partition: int = field(metadata=form("int32"))
    racks: tuple[str, ...] = field(metadata=form("string"))


@named_value
class SubscribedTopic(NestedForm):
    topic_id: UUID | None = field(metadata=form("uuid"))
    topic_name: str = field(metadata=form("string"))
    num_partitions: int = field(metadata=form("int32"))
    partition_metadata: tuple[PartitionRacks, ...]


@named_value
class ConsumerGroupPartitionMetadataValue(RecordValue):
    topics: tuple[SubscribedTopic, ...]


@named_value
class ConsumerGroupMemberMetadataKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 5

    group_id: str = field(metadata=form("string"))
    member_id: str = field(metadata=form("string"))


@named_value
class ClassicProtocol(NestedForm):
    name: str = field(metadata=form("string"))
    metadata: bytes = field(metadata=form("bytes"))


@named_value
class ClassicMemberMetadata(NestedForm):
    """Of a member that uses the classic protocol."""

    session_timeout_ms: int = field(metadata=form("int32"))
    supported_protocols: tuple[ClassicProtocol, ...]


@named_value
class ConsumerGroupMemberMetadataValue(RecordValue):
    instance_id: str | None = field(metadata=form("string"))
    rack_id: str | None = field(metadata=form("string"))
    client_id: str = field(metadata=form("string"))
    client_host: str = field(metadata=form("string"))
    subscribed_topic_names: tuple[str, ...] = field(metadata=form("string"))
    subscribed_topic_regex: str | None = field(metadata=form("string"))
    rebalance_timeout_ms: int = field(default=-1, metadata=form("int32"))
    server_assignor: str | None = field(metadata=form("string"))
    classic_member_metadata: ClassicMemberMetadata | None = field(default=None, metadata=form(tag=0))


@named_value
class ConsumerGroupTargetAssignmentMetadataKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 6

    group_id: str = field(metadata=form("string"))


@named_value
class ConsumerGroupTargetAssignmentMetadataValue(RecordValue):
    assignment_epoch: int = field(metadata=form("int32"))
    assignment_timestamp: int = field(default=0, metadata=form("int64", tag=0))


@named_value
class ConsumerGroupTargetAssignmentMemberKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 7

    group_id: str = field(metadata=form("string"))
    member_id: str = field(metadata=form("string"))


@named_value
class TargetPartitions(NestedForm):
    topic_id: UUID | None = field(metadata=form("uuid"))
    partitions: tuple[int, ...] = field(metadata=form("int32"))


@named_value
class ConsumerGroupTargetAssignmentMemberValue(RecordValue):
    topic_partitions: tuple[TargetPartitions, ...]


@named_value
class ConsumerGroupCurrentMemberAssignmentKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 8

    group_id: str = field(metadata=form("string"))
    member_id: str = field(metadata=form("string"))


@named_value
class CurrentPartitions(NestedForm):
    topic_id: UUID | None = field(metadata=form("uuid"))
    partitions: tuple[int, ...] = field(metadata=form("int32"))
    assignment_epochs: tuple[int, ...] | None = field(default=(), metadata=form("int32", tag=0))


@named_value
class ConsumerGroupCurrentMemberAssignmentValue(RecordValue):
    member_epoch: int = field(metadata=form("int32"))
    previous_member_epoch: int = field(metadata=form("int32"))
    state: int = field(metadata=form("int8"))
    assigned_partitions: tuple[CurrentPartitions, ...]
    partitions_pending_revocation: tuple[CurrentPartitions, ...]


@named_value
class ConsumerGroupRegularExpressionKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 16

    group_id: str = field(metadata=form("string"))
    regular_expression: str = field(metadata=form("string"))


@named_value
class ConsumerGroupRegularExpressionValue(RecordValue):
    topics: tuple[str, ...] = field(metadata=form("string"))
    version: int = field(metadata=form("int64"))
    timestamp: int = field(metadata=form("int64"))
