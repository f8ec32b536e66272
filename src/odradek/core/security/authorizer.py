"""The rules of Kafka's StandardAuthorizer: who may do what, decided by the ACLs of the metadata image.

A super user may do everything. For all others, one matching DENY entry denies, else one matching ALLOW entry allows.
Without a matching entry the default applies, but only to resources that no ACL is about; all others are denied.
"""

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

from odradek.base.principal import Principal
from odradek.core.security.access import Access, AuthorizerNotReady
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_index import AclIndex, Entries
from odradek.core.security.hosts import acl_host
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType, name_of
from odradek.instruments.authorization import AuthorizationCounts

ANY_PRINCIPAL: Final = "User:*"
RESULTS_MAX: Final = 50_000
"""Results that all clients of one authorizer keep together."""
KEPT_NAME_LENGTH_MAX: Final = 256
"""Results about longer names are not kept: clients choose the names of groups."""
_PROBED_NAME: Final = "hardcode"
"""Kafka's name of a resource that no ACL names, to find out what applies to all resources."""

_ALLOWING: Final = {
    operation: frozenset({operation.value, Operation.ALL.value})
    for operation in Operation
    if operation not in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
} | {
    Operation.DESCRIBE: frozenset(
        one.value
        for one in (
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        )
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        one.value for one in (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL)
    ),
}
"""The operations of ALLOW entries that allow each operation. DENY entries imply no other operation."""


class Reason(Enum):
    """The kind of rule that decided."""

    SUPER_USER = "the principal is a super user"
    ENTRY = "an ACL matches"
    NO_MATCHING_ENTRY = "ACLs about this resource exist, and none of them matches"
    NO_ENTRY = "no ACL is about this resource"


class Decision(NamedTuple):
    allowed: bool
    reason: Reason
    entry: AccessControlEntry | None = None
    """The entry that decided."""

    @property
    def rule(self) -> str:
        """As in Kafka's audit log."""
        if self.reason is Reason.SUPER_USER:
            return "SuperUser"
        if self.entry is None:
            return "DefaultAllow" if self.allowed else "DefaultDeny"
        return f"MatchingAcl(acl={_show_entry(self.entry)})"


class Denial(NamedTuple):
    """A denied request, for the log."""

    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str
    decision: Decision

    @property
    def rule(self) -> str:
        return self.decision.rule


_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_NO_MATCHING_ENTRY: Final = Decision(False, Reason.NO_MATCHING_ENTRY)
_Key = tuple[Operation, ResourceType, str | None]


class Authorizer:
    """Decides for all clients of one role of a node. Its ACLs are those of the image that was last applied."""

    def __init__(
        self,
        super_users: Collection[str],
        *,
        allows_without_acl: bool = False,
        on_denied: Callable[[Denial], None] | None = None,
    ) -> None:
        """`super_users` have the form TYPE:NAME. `on_denied` receives denials that have to be logged."""
        self._super_users: Final = frozenset(super_users)
        self._without_acl: Final = Decision(allows_without_acl, Reason.NO_ENTRY)
        self.on_denied: Final = on_denied
        self.counts: Final = AuthorizationCounts()
        self._index = AclIndex()
        self._entries: Entries = {}
        self._is_ready = False
        self._clients: Final[WeakValueDictionary[tuple[Principal, str], ClientAccess]] = WeakValueDictionary()
        self._kept_results = 0

    @property
    def acl_count(self) -> int:
        return len(self._entries)

    # The ACLs

    def load(self, entries: Entries) -> None:
        """Replaces all ACLs."""
        self._index = AclIndex()
        self._index.load(entries)
        self._entries = entries
        self._forget_results()

    def update(self, entries: Entries, changed: Iterable[UUID]) -> None:
        """Only these IDs differ from the ACLs before. All checks from now on see the change, as a whole."""
        self._index.update(self._entries, entries, changed)
        self._entries = entries
        self._forget_results()

    def set_ready(self) -> None:
        """The committed ACLs are loaded: before that, only super users may do anything."""
        self._is_ready = True

    # Checks

    def access_of(self, principal: Principal, host: str) -> Access:
        """What the principal may do from this IP address, now and after changes of the ACLs."""
        key = (principal, acl_host(host))
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = ClientAccess(self, *key)
        return client

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """`host` has the form of `acl_host`. Raises AuthorizerNotReady."""
        if principal in self._super_users:
            return _SUPER_USER
        if not self._is_ready:
            raise AuthorizerNotReady
        patterns = self._index.patterns_of(resource_type, name)
        if not patterns:
            return self._without_acl
        allowing = _ALLOWING[operation]
        allowed_by: AccessControlEntry | None = None
        for principals in patterns:
            for named in (principal, ANY_PRINCIPAL):
                for entry in principals.get(named, ()):
                    if entry.host != WILDCARD and entry.host != host:
                        continue
                    if entry.permission_type != Permission.ALLOW:
                        if entry.operation == operation or entry.operation == Operation.ALL:
                            return Decision(False, Reason.ENTRY, entry)
                    elif allowed_by is None and entry.operation in allowing:
                        allowed_by = entry
        return _NO_MATCHING_ENTRY if allowed_by is None else Decision(True, Reason.ENTRY, allowed_by)

    def decide_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this with at least one resource of the type that could exist."""
        if self.decide(principal, host, operation, resource_type, _PROBED_NAME).allowed:
            return True
        allowed, denied = self._patterns_that_name(principal, host, operation, resource_type)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if (PatternType.LITERAL, WILDCARD) in allowed:
            return True
        denied_prefixes = {name for pattern_type, name in denied if pattern_type == PatternType.PREFIXED}
        lengths = {len(name) for name in denied_prefixes}
        return any(
            not (pattern_type == PatternType.LITERAL and (pattern_type, name) in denied)
            and not any(name[:length] in denied_prefixes for length in lengths)
            for pattern_type, name in allowed
        )

    def _patterns_that_name(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
        """The patterns of entries that allow and that deny exactly this operation, or all."""
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        operations = (operation, Operation.ALL)
        for named in {principal, ANY_PRINCIPAL}:
            for entry in self._index.entries_of(resource_type, named):
                if entry.operation in operations and entry.host in (WILDCARD, host):
                    patterns = allowed if entry.permission_type == Permission.ALLOW else denied
                    patterns.add((entry.pattern_type, entry.resource_name))
        return allowed, denied

    # Results that clients keep

    def make_room(self) -> None:
        """To be called before a client keeps one more result."""
        if self._kept_results >= RESULTS_MAX:
            self._forget_results()
        self._kept_results += 1

    def _forget_results(self) -> None:
        for client in self._clients.values():
            client.forget_results()
        self._kept_results = 0


def _show_entry(entry: AccessControlEntry) -> str:
    return (
        f"StandardAcl[resourceType={name_of(ResourceType, entry.resource_type)}, resourceName={entry.resource_name}, "
        f"patternType={name_of(PatternType, entry.pattern_type)}, principal={entry.principal}, host={entry.host}, "
        f"operation={name_of(Operation, entry.operation)}, "
        f"permissionType={name_of(Permission, entry.permission_type)}]"
    )


class ClientAccess:
    """What one principal may do from one address, with the results of earlier checks."""

    __slots__ = ("__weakref__", "_authorizer", "_counts", "_host", "_name", "_principal", "_results")

    is_restricted: Final = True

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self._principal: Final = principal
        self._authorizer: Final = authorizer
        self._counts: Final = authorizer.counts
        self._name: Final = str(principal)
        self._host: Final = host
        self._results: Final[dict[_Key, bool]] = {}

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        allowed = self._results.get((operation, resource_type, name))
        if allowed is None:
            allowed = self._authorizer.decide(self._name, self._host, operation, resource_type, name).allowed
            if len(name) <= KEPT_NAME_LENGTH_MAX:
                self._keep((operation, resource_type, name), allowed)
        if allowed:
            self._counts.allowed += 1
            return True
        self._counts.denied += 1
        if logs_denial and self._authorizer.on_denied is not None:
            self._report(operation, resource_type, name)
        return False

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        allowed = self._results.get((operation, resource_type, None))
        if allowed is None:
            allowed = self._authorizer.decide_any(self._name, self._host, operation, resource_type)
            self._keep((operation, resource_type, None), allowed)
        if allowed:
            self._counts.allowed += 1
        else:
            self._counts.denied += 1
        return allowed

    def explain(self, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        return self._authorizer.decide(self._name, self._host, operation, resource_type, name)

    def forget_results(self) -> None:
        self._results.clear()

    def _keep(self, key: _Key, allowed: bool) -> None:
        self._authorizer.make_room()
        self._results[key] = allowed

    def _report(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        assert self._authorizer.on_denied is not None
        decision = self.explain(operation, resource_type, name)
        self._authorizer.on_denied(Denial(self._principal, self._host, operation, resource_type, name, decision))
