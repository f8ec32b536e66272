"""The record of a classic group, written with every assignment."""

from dataclasses import field
from typing import ClassVar

from odradek.base.record_form import NestedForm, form
from odradek.base.values import named_value
from odradek.core.groups.commands import NO_TIMESTAMP
from odradek.core.groups.records.frame import RecordKey, RecordValue

NO_TIMEOUT = -1


@named_value
class GroupMetadataKey(RecordKey):
    KEY_VERSION: ClassVar[int] = 2

    group: str = field(metadata=form("string"))


@named_value
class MemberMetadata(NestedForm):
    member_id: str = field(metadata=form("string"))
    group_instance_id: str | None = field(default=None, metadata=form("string", since=3))
    client_id: str = field(metadata=form("string"))
    client_host: str = field(metadata=form("string"))
    rebalance_timeout: int = field(default=NO_TIMEOUT, metadata=form("int32", since=1))
    session_timeout: int = field(metadata=form("int32"))
    subscription: bytes = field(metadata=form("bytes"))
    assignment: bytes = field(metadata=form("bytes"))


@named_value
class GroupMetadataValue(RecordValue):
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    protocol_type: str = field(metadata=form("string"))
    generation: int = field(metadata=form("int32"))
    protocol: str | None = field(metadata=form("string"))
    leader: str | None = field(metadata=form("string"))
    current_state_timestamp: int = field(default=NO_TIMESTAMP, metadata=form("int64", since=2))
    members: tuple[MemberMetadata, ...]
