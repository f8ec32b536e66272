"""A schema as registries and files give it, and what is raised where one cannot be used."""

from collections.abc import Sequence
from dataclasses import dataclass

AVRO = "AVRO"
PROTOBUF = "PROTOBUF"
JSON = "JSON"


class Undecodable(Exception):
    """The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """`references` are those that it names, each after those that it needs itself.

    The text of Protobuf is a FileDescriptorProto in base64, as registries give it with `format=serialized`.
    """

    type: str
    text: str
    references: Sequence[Reference] = ()
    message: str | None = None
    """Of Protobuf without a frame: the full name of the message that records are."""
