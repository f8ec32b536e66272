"""ACLs, credentials and quotas after each committed change: a model without an index, made of lists.

It knows Kafka's rules, and nothing of the authorizer that it is compared with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Final, NamedTuple
from uuid import UUID

from odradek.core.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from odradek.core.security.resources import Operation, PatternType, Permission
from odradek.sim.quorum_history import CommittedBatch
from odradek.sim.security_history import Check

_ANY: Final = "*"
_ANY_USER: Final = "User:*"
_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}

Entity = frozenset[tuple[str, str | None]]
_DEFAULT_USER: Final[Entity] = frozenset({("user", None)})


class Rules(NamedTuple):
    """Of the authorizer's configs."""

    super_users: frozenset[str]
    allows_without_acl: bool


@dataclass(frozen=True)
class SecurityState:
    """After the change at `offset`."""

    offset: int = -1
    seconds: float = -inf
    """When the change was first written: no node can have applied it before."""
    acls: tuple[AccessControlEntryRecord, ...] = ()
    salts: tuple[tuple[str, bytes], ...] = ()
    """User -> the salt of its credential, which identifies the password."""
    quotas: tuple[tuple[Entity, str, float], ...] = ()

    def allows(self, rules: Rules, user: str, host: str, check: Check) -> bool:
        if user in rules.super_users:
            return True
        about = [one for one in self.acls if _is_about(one, check)]
        if not about:
            return rules.allows_without_acl
        principal = f"User:{user}"
        matching = [one for one in about if one.principal in (principal, _ANY_USER) and one.host in (_ANY, host)]
        if any(one.permission_type == Permission.DENY and _names(one, check.operation) for one in matching):
            return False
        allowing = {check.operation} | _IMPLIED_BY.get(check.operation, frozenset())
        return any(
            one.permission_type == Permission.ALLOW and any(_names(one, operation) for operation in allowing)
            for one in matching
        )

    def salt_of(self, user: str) -> bytes | None:
        return self._salts.get(user)

    @cached_property
    def _salts(self) -> dict[str, bytes]:
        return dict(self.salts)

    def quota_of(self, key: str, user: str) -> float | None:
        """The user's own, or the default of all users. Clients of this run have no quotas by client ID."""
        quotas = {entity: value for entity, quota_key, value in self.quotas if quota_key == key}
        own = quotas.get(frozenset({("user", user)}))
        return quotas.get(_DEFAULT_USER) if own is None else own


def _is_about(entry: AccessControlEntryRecord, check: Check) -> bool:
    if entry.resource_type != check.resource_type:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        return check.name.startswith(entry.resource_name)
    return entry.resource_name in (check.name, _ANY)


def _names(entry: AccessControlEntryRecord, operation: Operation) -> bool:
    return entry.operation in (operation, Operation.ALL)


class SecurityStates:
    """The states of a run, in the order of the metadata log."""

    def __init__(self, committed: Iterable[CommittedBatch]) -> None:
        self._states: Final = [SecurityState()]
        for one in committed:
            if one.security:
                after = _apply(self._states[-1], one.security)
                self._states.append(replace(after, offset=one.batch.last_offset, seconds=one.appended_seconds))

    def between(self, floor: int, ended: float) -> Sequence[SecurityState]:
        """Those that a node may have used which had applied `floor` before it began, and ended at that time."""
        states = self._states
        first = max(number for number, one in enumerate(states) if one.offset <= floor or number == 0)
        last = max(number for number, one in enumerate(states) if one.seconds <= ended)
        return states[first : max(first, last) + 1]


def _apply(state: SecurityState, records: Iterable[MetadataRecord]) -> SecurityState:
    acls: dict[UUID, AccessControlEntryRecord] = {one.id: one for one in state.acls}
    salts = dict(state.salts)
    quotas = {(entity, key): value for entity, key, value in state.quotas}
    for record in records:
        match record:
            case AccessControlEntryRecord():
                acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                acls.pop(record.id, None)
            case UserScramCredentialRecord():
                salts[record.name] = record.salt
            case RemoveUserScramCredentialRecord():
                salts.pop(record.name, None)
            case ClientQuotaRecord():
                entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
                if record.remove:
                    quotas.pop((entity, record.key), None)
                else:
                    quotas[entity, record.key] = record.value
    return SecurityState(
        acls=tuple(acls.values()),
        salts=tuple(salts.items()),
        quotas=tuple((entity, key, value) for (entity, key), value in quotas.items()),
    )
