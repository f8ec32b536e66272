"""One ACL: what it is about, whom it names, and what it allows or denies."""

from odradek.base.values import value
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType


@value
class AccessControlEntry:
    """The types, the operation and the permission are codes, which may belong to later versions."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def allowing_entry(principal: str, operation: Operation, resource_type: ResourceType, name: str) -> AccessControlEntry:
    """The ACL that allows just this, from every host."""
    return AccessControlEntry(
        resource_type.value,
        name,
        PatternType.LITERAL.value,
        principal,
        WILDCARD,
        operation.value,
        Permission.ALLOW.value,
    )
