"""Schemas from registries and files, and the error for schemas and records that cannot be decoded."""

from collections.abc import Sequence
from dataclasses import dataclass

AVRO = "AVRO"
PROTOBUF = "PROTOBUF"
JSON = "JSON"


class Undecodable(Exception):
    """The message states why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """`references` are in order of dependency.

    The text of a Protobuf schema is a FileDescriptorProto in base64, as registries return it with `format=serialized`.
    """

    type: str
    text: str
    references: Sequence[Reference] = ()
    message: str | None = None
    """For Protobuf without framing: the full name of the records' message."""
