"""Explains a decision of the authorizer: the rule that decides, and what would have to change to allow.

Every step asks the authorizer itself, so an explanation cannot contradict what brokers decide.
"""

from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from odradek.core.security.acl_entry import AccessControlEntry, allowing_entry
from odradek.core.security.authorizer import Authorizer, Decision
from odradek.core.security.resources import WILDCARD, Operation, ResourceType

ANY_HOST: Final = WILDCARD
"""As the host of a check: an address that no ACL names, so that only ACLs for all hosts match."""


class AccessCheck(NamedTuple):
    """What the authorizer has to decide. `host` has the form of `acl_host`."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


class Explanation(NamedTuple):
    check: AccessCheck
    decision: Decision
    denying: tuple[AccessControlEntry, ...]
    """If the check is denied: all DENY entries that match. None of them may stay if it is to be allowed."""
    missing: AccessControlEntry | None
    """If the check is denied: the ALLOW entry that is needed too, once no DENY entry matches."""

    @property
    def implied_by(self) -> Operation | None:
        """The operation of the ALLOW entry that decided, if it is another one and implies the checked one."""
        entry = self.decision.entry
        if entry is None or not self.decision.allowed or entry.operation in (self.check.operation, Operation.ALL):
            return None
        return Operation(entry.operation)


def explain(
    check: AccessCheck,
    entries: Collection[AccessControlEntry],
    super_users: Collection[str],
    *,
    allows_without_acl: bool,
) -> Explanation:
    """`entries` are at least those about the resource."""
    remaining = {UUID(int=number): entry for number, entry in enumerate(dict.fromkeys(entries), start=1)}
    authorizer = Authorizer(super_users, allows_without_acl=allows_without_acl)
    authorizer.load(remaining)
    authorizer.set_ready()
    decision = later = authorizer.decide(*check)
    denying: list[AccessControlEntry] = []
    while not later.allowed and later.entry is not None:
        # Without this entry, another one may deny.
        denied_by = later.entry
        removed = next(entry_id for entry_id, entry in remaining.items() if entry == denied_by)
        denying.append(denied_by)
        remaining = {entry_id: entry for entry_id, entry in remaining.items() if entry_id != removed}
        authorizer.update(remaining, [removed])
        later = authorizer.decide(*check)
    missing = (
        None if later.allowed else allowing_entry(check.principal, check.operation, check.resource_type, check.name)
    )
    return Explanation(check, decision, tuple(denying), missing)
