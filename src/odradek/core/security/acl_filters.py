"""Filters of ACLs, as DescribeAcls and DeleteAcls use them."""

from typing import Final, NamedTuple, Self

from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType, name_of

_UNKNOWN: Final = "UNKNOWN"
"""The name of code 0, and of all codes that this version does not know."""


class AclFilter(NamedTuple):
    """None, and ANY of a type, match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    """MATCH: every pattern that matches the resource with this name."""
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @classmethod
    def exactly(cls, entry: AccessControlEntry) -> Self:
        return cls(
            entry.resource_type,
            entry.resource_name,
            entry.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission_type,
        )

    @property
    def has_unknown_pattern(self) -> bool:
        return _UNKNOWN in (name_of(ResourceType, self.resource_type), name_of(PatternType, self.pattern_type))

    @property
    def has_unknown_entry(self) -> bool:
        return _UNKNOWN in (name_of(Operation, self.operation), name_of(Permission, self.permission_type))

    @property
    def only_match(self) -> AccessControlEntry | None:
        """The only entry that can match, if there is one."""
        if (
            self.resource_name is None
            or self.principal is None
            or self.host is None
            or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
            or self.resource_type == ResourceType.ANY
            or self.operation == Operation.ANY
            or self.permission_type == Permission.ANY
        ):
            return None
        return AccessControlEntry(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def matches(self, entry: AccessControlEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission_type in (Permission.ANY, entry.permission_type)
            and self._matches_pattern(entry)
        )

    def _matches_pattern(self, entry: AccessControlEntry) -> bool:
        name = self.resource_name
        if self.pattern_type in (PatternType.ANY, entry.pattern_type):
            return name is None or name == entry.resource_name
        if self.pattern_type != PatternType.MATCH:
            return False
        if name is None:
            return True
        if entry.pattern_type == PatternType.PREFIXED:
            return name.startswith(entry.resource_name)
        return entry.resource_name in (name, WILDCARD)
