"""The operations that a principal may perform on a topic, a group or the cluster, as a bit field."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType

NOT_REQUESTED: Final = -(2**31)

_CONFIG_OPERATIONS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIG_OPERATIONS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIG_OPERATIONS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        *_CONFIG_OPERATIONS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(_SUPPORTED[ResourceType.TOPIC])
GROUP_OPERATIONS: Final = _bits(_SUPPORTED[ResourceType.GROUP])
CLUSTER_OPERATIONS: Final = _bits(_SUPPORTED[ResourceType.CLUSTER])
_ALL: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}


def authorized_operations(access: Access, resource_type: ResourceType, name: str) -> int:
    """Bit n is set if the operation with code n is allowed. All supported operations without an authorizer."""
    if not access.is_restricted:
        return _ALL[resource_type]
    return _bits(one for one in _SUPPORTED[resource_type] if access.allows(one, resource_type, name, logs_denial=False))


def cluster_operations(access: Access, *, is_requested: bool) -> int:
    """None of them for a principal that may not describe the cluster."""
    if not is_requested:
        return NOT_REQUESTED
    if access.is_restricted and not access.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(access, ResourceType.CLUSTER, CLUSTER_NAME)
