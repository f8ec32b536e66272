"""Records about topics and their partitions."""

from dataclasses import field
from typing import ClassVar
from uuid import UUID

from odradek.base.record_form import form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord

NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1


@named_value
class TopicRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 2

    name: str = field(metadata=form("string"))
    topic_id: UUID = field(metadata=form("uuid"))


@named_value
class PartitionRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 3
    HIGHEST_VERSION: ClassVar[int] = 2

    partition_id: int = field(metadata=form("int32"))
    topic_id: UUID = field(metadata=form("uuid"))
    replicas: tuple[int, ...] = field(metadata=form("int32"))
    isr: tuple[int, ...] = field(metadata=form("int32"))
    removing_replicas: tuple[int, ...] = field(default=(), metadata=form("int32"))
    adding_replicas: tuple[int, ...] = field(default=(), metadata=form("int32"))
    leader: int = field(metadata=form("int32"))
    leader_recovery_state: int = field(default=0, metadata=form("int8", tag=0))
    leader_epoch: int = field(metadata=form("int32"))
    partition_epoch: int = field(metadata=form("int32"))
    directories: tuple[UUID | None, ...] = field(default=(), metadata=form("uuid", since=1))
    eligible_leader_replicas: tuple[int, ...] | None = field(default=None, metadata=form("int32", since=2, tag=1))
    last_known_elr: tuple[int, ...] | None = field(default=None, metadata=form("int32", since=2, tag=2))


@named_value
class PartitionChangeRecord(MetadataRecord):
    """A change of a partition; the fields left at their default change nothing."""

    API_KEY: ClassVar[int] = 5
    HIGHEST_VERSION: ClassVar[int] = 2

    partition_id: int = field(metadata=form("int32"))
    topic_id: UUID = field(metadata=form("uuid"))
    isr: tuple[int, ...] | None = field(default=None, metadata=form("int32", tag=0))
    leader: int = field(default=NO_LEADER_CHANGE, metadata=form("int32", tag=1))
    replicas: tuple[int, ...] | None = field(default=None, metadata=form("int32", tag=2))
    removing_replicas: tuple[int, ...] | None = field(default=None, metadata=form("int32", tag=3))
    adding_replicas: tuple[int, ...] | None = field(default=None, metadata=form("int32", tag=4))
    leader_recovery_state: int = field(default=NO_RECOVERY_STATE_CHANGE, metadata=form("int8", tag=5))
    eligible_leader_replicas: tuple[int, ...] | None = field(default=None, metadata=form("int32", since=2, tag=6))
    last_known_elr: tuple[int, ...] | None = field(default=None, metadata=form("int32", since=2, tag=7))
    directories: tuple[UUID | None, ...] | None = field(default=None, metadata=form("uuid", since=1, tag=8))


@named_value
class RemoveTopicRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 9

    topic_id: UUID = field(metadata=form("uuid"))


@named_value
class ClearElrRecord(MetadataRecord):
    """Clears the eligible leader replicas of one topic, or of all if the name is empty."""

    API_KEY: ClassVar[int] = 28

    topic_name: str = field(metadata=form("string"))
