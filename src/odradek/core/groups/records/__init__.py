"""The records of `__consumer_offsets`, as Apache Kafka 4.3.1 writes them.

Share and streams groups are not supported yet: their records are of an `UnknownKind`, and stay in the log.
"""

from odradek.base.record_form import UnreadableRecord
from odradek.core.groups.records.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from odradek.core.groups.records.codec import UnknownKind, decode, encode_key, encode_value
from odradek.core.groups.records.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    PartitionRacks,
    SubscribedTopic,
    TargetPartitions,
)
from odradek.core.groups.records.frame import GroupRecord, RecordKey, RecordValue
from odradek.core.groups.records.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "CurrentPartitions",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "GroupRecord",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionRacks",
    "RecordKey",
    "RecordValue",
    "SubscribedTopic",
    "TargetPartitions",
    "UnknownKind",
    "UnreadableRecord",
    "decode",
    "encode_key",
    "encode_value",
]
