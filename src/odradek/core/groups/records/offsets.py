"""Records of committed offsets."""

from dataclasses import field
from typing import ClassVar
from uuid import UUID

from odradek.base.record_form import form
from odradek.base.values import named_value
from odradek.core.groups.commands import NO_LEADER_EPOCH, NO_TIMESTAMP
from odradek.core.groups.records.frame import RecordKey, RecordValue


@named_value
class LegacyOffsetCommitKey(RecordKey):
    """The format of releases before 0.9, with the same meaning as `OffsetCommitKey`."""

    KEY_VERSION: ClassVar[int] = 0

    group: str = field(metadata=form("string"))
    topic: str = field(metadata=form("string"))
    partition: int = field(metadata=form("int32"))


@named_value
class LegacyOffsetCommitValue(RecordValue):
    FLEXIBLE_SINCE: ClassVar[int] = 1

    offset: int = field(metadata=form("int64"))
    metadata: str = field(metadata=form("string"))
    commit_timestamp: int = field(metadata=form("int64"))


@named_value
class OffsetCommitKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 1

    group: str = field(metadata=form("string"))
    topic: str = field(metadata=form("string"))
    partition: int = field(metadata=form("int32"))


@named_value
class OffsetCommitValue(RecordValue):
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    offset: int = field(metadata=form("int64"))
    leader_epoch: int = field(default=NO_LEADER_EPOCH, metadata=form("int32", since=3))
    metadata: str = field(metadata=form("string"))
    commit_timestamp: int = field(metadata=form("int64"))
    expire_timestamp: int = field(default=NO_TIMESTAMP, metadata=form("int64", since=1, until=1))
    topic_id: UUID | None = field(default=None, metadata=form("uuid", since=4, tag=0))
