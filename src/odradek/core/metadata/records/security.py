"""Records about security: SCRAM credentials, delegation tokens, ACLs."""

from dataclasses import field
from typing import ClassVar
from uuid import UUID

from odradek.base.record_form import form
from odradek.base.values import named_value
from odradek.core.metadata.records.form import MetadataRecord


@named_value
class DelegationTokenRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 10

    owner: str = field(metadata=form("string"))
    requester: str = field(metadata=form("string"))
    renewers: tuple[str, ...] = field(metadata=form("string"))
    issue_timestamp: int = field(metadata=form("int64"))
    max_timestamp: int = field(metadata=form("int64"))
    expiration_timestamp: int = field(metadata=form("int64"))
    token_id: str = field(metadata=form("string"))


@named_value
class RemoveDelegationTokenRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 26

    token_id: str = field(metadata=form("string"))


@named_value
class UserScramCredentialRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 11

    name: str = field(metadata=form("string"))
    mechanism: int = field(metadata=form("int8"))
    salt: bytes = field(metadata=form("bytes"))
    stored_key: bytes = field(metadata=form("bytes"))
    server_key: bytes = field(metadata=form("bytes"))
    iterations: int = field(metadata=form("int32"))

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord(name={self.name!r}, mechanism={self.mechanism}, [hidden])"


@named_value
class RemoveUserScramCredentialRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 22

    name: str = field(metadata=form("string"))
    mechanism: int = field(metadata=form("int8"))


@named_value
class AccessControlEntryRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 18

    id: UUID = field(metadata=form("uuid"))
    resource_type: int = field(metadata=form("int8"))
    resource_name: str = field(metadata=form("string"))
    pattern_type: int = field(metadata=form("int8"))
    principal: str = field(metadata=form("string"))
    host: str = field(metadata=form("string"))
    operation: int = field(metadata=form("int8"))
    permission_type: int = field(metadata=form("int8"))


@named_value
class RemoveAccessControlEntryRecord(MetadataRecord):
    API_KEY: ClassVar[int] = 19

    id: UUID = field(metadata=form("uuid"))
