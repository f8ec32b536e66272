"""What ACLs name: types of resources, operations, patterns and permissions, with Kafka's codes."""

from enum import IntEnum
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER."""
WILDCARD: Final = "*"


class ResourceType(IntEnum):
    # As of an int: authorizers look up results by it, and the hash of an enumeration is computed in Python.
    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def name_of(kind: type[ResourceType | PatternType | Operation | Permission], code: int) -> str:
    """UNKNOWN for the codes of later versions."""
    return next((one.name for one in kind if one == code), "UNKNOWN")
