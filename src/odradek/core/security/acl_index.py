"""The ACLs by what a check needs: by resource pattern and principal. Follows the metadata image change by change."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.prefixes import Prefixes
from odradek.core.security.resources import WILDCARD, PatternType

Entries: TypeAlias = Mapping[UUID, AccessControlEntry]
PatternEntries: TypeAlias = Mapping[str, Collection[AccessControlEntry]]
"""The entries of one resource pattern, by principal."""

_NONE: Final[Mapping[UUID, AccessControlEntry]] = {}


class AclIndex:
    def __init__(self) -> None:
        self._types: Final[dict[int, _TypeIndex]] = {}

    def load(self, entries: Entries) -> None:
        """Adds all entries, to an empty index."""
        assert not self._types, "the index has entries already"
        for entry_id, entry in entries.items():
            self._type(entry.resource_type).add(entry_id, entry)
        self._update_prefixes()

    def update(self, before: Entries, after: Entries, changed: Iterable[UUID]) -> None:
        """The entries of these IDs changed from `before`, which the index has, to `after`."""
        for entry_id in changed:
            if (old := before.get(entry_id)) is not None:
                self._type(old.resource_type).remove(entry_id, old)
            if (new := after.get(entry_id)) is not None:
                self._type(new.resource_type).add(entry_id, new)
        self._update_prefixes()

    def patterns_of(self, resource_type: int, name: str) -> list[PatternEntries]:
        """The entries of every pattern that matches the resource: its own name, its prefixes, all names."""
        one = self._types.get(resource_type)
        return [] if one is None else one.patterns_of(name)

    def entries_of(self, resource_type: int, principal: str) -> Collection[AccessControlEntry]:
        """All entries about resources of the type that name this principal."""
        one = self._types.get(resource_type)
        return () if one is None else one.by_principal.get(principal, _NONE).values()

    def _type(self, resource_type: int) -> "_TypeIndex":
        one = self._types.get(resource_type)
        if one is None:
            one = self._types[resource_type] = _TypeIndex()
        return one

    def _update_prefixes(self) -> None:
        for one in self._types.values():
            one.update_prefixes()


class _TypeIndex:
    """The entries about one type of resource."""

    __slots__ = ("_literal", "_prefixed", "_prefixes", "_touched", "by_principal")

    def __init__(self) -> None:
        self._literal: Final[dict[str, dict[str, list[AccessControlEntry]]]] = {}
        self._prefixed: Final[dict[str, dict[str, list[AccessControlEntry]]]] = {}
        self._prefixes: Final = Prefixes()
        self._touched: Final[set[str]] = set()
        """Prefixes that entries were added to or removed from, since the last `update_prefixes`."""
        self.by_principal: Final[dict[str, dict[UUID, AccessControlEntry]]] = {}

    def patterns_of(self, name: str) -> list[PatternEntries]:
        literal = self._literal
        found: list[PatternEntries] = []
        if (of_name := literal.get(name)) is not None:
            found.append(of_name)
        for prefix in self._prefixes.of(name):
            found.append(self._prefixed[prefix])
        if name != WILDCARD and (of_all := literal.get(WILDCARD)) is not None:
            found.append(of_all)
        return found

    def add(self, entry_id: UUID, entry: AccessControlEntry) -> None:
        principals = self._patterns(entry).setdefault(entry.resource_name, {})
        principals.setdefault(entry.principal, []).append(entry)
        self.by_principal.setdefault(entry.principal, {})[entry_id] = entry

    def remove(self, entry_id: UUID, entry: AccessControlEntry) -> None:
        of_principal = self.by_principal[entry.principal]
        # An equal object, but the list has this one.
        entry = of_principal.pop(entry_id)
        if not of_principal:
            del self.by_principal[entry.principal]
        patterns = self._patterns(entry)
        principals = patterns[entry.resource_name]
        entries = principals[entry.principal]
        del entries[next(index for index, one in enumerate(entries) if one is entry)]
        if not entries:
            del principals[entry.principal]
        if not principals:
            del patterns[entry.resource_name]

    def update_prefixes(self) -> None:
        touched = self._touched
        self._prefixes.change(
            added=[one for one in touched if one in self._prefixed and one not in self._prefixes],
            removed=[one for one in touched if one not in self._prefixed and one in self._prefixes],
        )
        touched.clear()

    def _patterns(self, entry: AccessControlEntry) -> dict[str, dict[str, list[AccessControlEntry]]]:
        if entry.pattern_type == PatternType.LITERAL:
            return self._literal
        # As in Kafka, a pattern of an unknown type counts as a prefix.
        self._touched.add(entry.resource_name)
        return self._prefixed
