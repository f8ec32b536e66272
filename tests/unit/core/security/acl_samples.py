"""ACLs and principals for tests of the authorizer."""

from uuid import UUID

from odradek.base.principal import USER, Principal
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType

ALICE = Principal(USER, "alice")
BOB = Principal(USER, "bob")
HOST = "10.0.0.1"


def acl(
    name: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AccessControlEntry:
    return AccessControlEntry(
        resource_type.value, name, pattern_type.value, principal, host, operation.value, permission.value
    )


def numbered(*entries: AccessControlEntry) -> dict[UUID, AccessControlEntry]:
    return {UUID(int=number): entry for number, entry in enumerate(entries, start=1)}
