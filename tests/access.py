"""Accesses for the tests of handlers: what one principal may do, without an authorizer."""

from collections.abc import Collection

from odradek.core.security.resources import Operation, ResourceType

Grant = tuple[Operation, ResourceType, str]


class ListedAccess:
    """Allows what it lists, and records every check."""

    is_restricted = True

    def __init__(self, *grants: Grant) -> None:
        self.grants: Collection[Grant] = grants
        self.checks: list[Grant] = []

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        self.checks.append((operation, resource_type, name))
        return (operation, resource_type, name) in self.grants

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return any(grant[:2] == (operation, resource_type) for grant in self.grants)
