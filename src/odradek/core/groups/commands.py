"""The commands of the group coordinator and its responses, independent of the wire format.

API handlers convert requests to commands, and responses back. Where the version of a request changes its meaning, the
command carries it as `version`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.security.access import UNRESTRICTED, Access

UNKNOWN_MEMBER_ID: Final = ""
"""Of a member that joins without an id."""
NO_GENERATION: Final = -1
NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
DEFAULT_RETENTION: Final = -1
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_FOR_A_WHILE_EPOCH: Final = -2
"""Of a static member that will rejoin with its instance id."""
NO_MEMBER_EPOCH: Final = -1
NO_TIMEOUT: Final = -1


# ---- the classic protocol


class MemberProtocol(NamedTuple):
    """An assignment strategy that a member supports, with its metadata for the assignor."""

    name: str
    metadata: bytes


class JoinGroup(NamedTuple):
    version: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """Version 0 has none, and uses the session timeout."""
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    reason: str | None = None
    access: Access = UNRESTRICTED
    """What the member may do: see `ConsumerGroupHeartbeat`."""


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = ""
    """Versions without null use the empty string."""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncGroup(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    """None in versions before 5, like the name."""
    protocol_name: str | None
    assignments: Sequence[tuple[str, bytes]]
    """By member; only the leader sends them."""


class SyncResponse(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


class HeartbeatResponse(NamedTuple):
    error: ErrorCode


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group_id: str
    members: Sequence[LeavingMember]


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class LeaveResponse(NamedTuple):
    error: ErrorCode
    members: tuple[LeftMember, ...] = ()

    @property
    def single_error(self) -> ErrorCode:
        """The error for versions before 3, in which one member leaves."""
        if self.error is not ErrorCode.none or not self.members:
            return self.error
        return self.members[0].error


# ---- the consumer protocol (KIP-848)


class TopicIdPartitions(NamedTuple):
    topic_id: UUID
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeat(NamedTuple):
    """The only request of consumer group members. None and -1 mean unchanged."""

    version: int
    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: tuple[TopicIdPartitions, ...] | None = None
    """The partitions that the member owns."""
    access: Access = UNRESTRICTED
    """What the member may do: regular expressions match only topics that it may describe."""


class ConsumerGroupHeartbeatResponse(NamedTuple):
    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartitions, ...] | None = None
    """The partitions that the member may own; None if unchanged since the last response."""


class AssignedTopic(NamedTuple):
    topic_id: UUID
    topic: str
    partitions: tuple[int, ...]


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assignment: tuple[AssignedTopic, ...]
    target_assignment: tuple[AssignedTopic, ...]
    is_classic: bool
    """Whether the member uses the classic protocol, in a group that is being migrated."""


class DescribedConsumerGroup(NamedTuple):
    group_id: str
    error: ErrorCode
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


# ---- offsets


class PartitionOffset(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


class TopicOffsets(NamedTuple):
    topic: str
    partitions: Sequence[PartitionOffset]
    topic_id: UUID | None = None
    """Set in requests that name topics by id."""


class CommitOffsets(NamedTuple):
    version: int
    group_id: str
    generation_id: int
    """The member epoch, in a consumer group."""
    member_id: str
    instance_id: str | None
    topics: Sequence[TopicOffsets]
    retention_ms: int = DEFAULT_RETENTION
    """Versions 2 to 4 may set the retention of the offsets."""


class CommitOffsetsInTransaction(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    producer_id: int
    producer_epoch: int
    topics: Sequence[TopicOffsets]


class PartitionError(NamedTuple):
    partition: int
    error: ErrorCode


class TopicErrors(NamedTuple):
    topic: str
    partitions: tuple[PartitionError, ...]
    topic_id: UUID | None = None


class CommitResponse(NamedTuple):
    topics: tuple[TopicErrors, ...]


class TopicPartitions(NamedTuple):
    topic: str
    partitions: Sequence[int]
    topic_id: UUID | None = None


class FetchOffsets(NamedTuple):
    """For one group; a request may name several."""

    group_id: str
    topics: Sequence[TopicPartitions] | None
    """None: all topics."""
    require_stable: bool = False
    member_id: str | None = None
    """With its epoch, for a member of a consumer group."""
    member_epoch: int = NO_MEMBER_EPOCH


class FetchedPartition(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


class FetchedTopic(NamedTuple):
    topic: str
    partitions: tuple[FetchedPartition, ...]
    topic_id: UUID | None = None


class FetchOffsetsResponse(NamedTuple):
    group_id: str
    error: ErrorCode
    topics: tuple[FetchedTopic, ...] = ()


class DeleteOffsets(NamedTuple):
    group_id: str
    topics: Sequence[TopicPartitions]


class DeleteOffsetsResponse(NamedTuple):
    error: ErrorCode
    topics: tuple[TopicErrors, ...] = ()


# ---- groups


class DeleteGroups(NamedTuple):
    group_ids: Sequence[str]


class DeleteGroupsResponse(NamedTuple):
    results: tuple[tuple[str, ErrorCode], ...]


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    error: ErrorCode
    error_message: str | None
    state: str
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    kind: str


Response = (
    JoinResponse
    | SyncResponse
    | HeartbeatResponse
    | LeaveResponse
    | ConsumerGroupHeartbeatResponse
    | CommitResponse
    | FetchOffsetsResponse
    | DeleteOffsetsResponse
    | DeleteGroupsResponse
)

Command = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | CommitOffsets
    | CommitOffsetsInTransaction
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
)
