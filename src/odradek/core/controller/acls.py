"""Creates and deletes ACLs."""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.controller.commands import RECORDS_MAX, ControllerResult
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType, name_of


class Acls:
    def __init__(self, state: ControllerState) -> None:
        self._state: Final = state

    def create(self, entries: Sequence[AccessControlEntry]) -> ControllerResult[Sequence[KafkaError | None]]:
        """An entry that exists already is a success."""
        index = self._state.index
        records = BoundedRecords()
        created: set[AccessControlEntry] = set()
        results: list[KafkaError | None] = []
        for entry in entries:
            error = _why_invalid(entry)
            results.append(error)
            if error is None and index.acl_id(self._state.image, entry) is None and entry not in created:
                created.add(entry)
                records.append(_record(self._new_id(), entry))
                records.check()
        return ControllerResult(tuple(records), results)

    def delete(
        self, filters: Sequence[AclFilter]
    ) -> ControllerResult[Sequence[Sequence[AccessControlEntry] | KafkaError]]:
        """The deleted entries of each filter. An entry that two filters match is in both results."""
        deleted: dict[UUID, None] = {}
        results: list[Sequence[AccessControlEntry] | KafkaError] = []
        for one in filters:
            if one.has_unknown_pattern or one.has_unknown_entry:
                part = "patternFilter" if one.has_unknown_pattern else "entryFilter"
                results.append(KafkaError(ErrorCode.invalid_request, f"Unknown {part}."))
                continue
            matching: list[AccessControlEntry] = []
            for entry_id, entry in self._matching(one):
                if len(deleted) >= RECORDS_MAX:
                    raise KafkaError(
                        ErrorCode.invalid_request,
                        f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.",
                    )
                deleted[entry_id] = None
                matching.append(entry)
            results.append(matching)
        return ControllerResult(tuple(RemoveAccessControlEntryRecord(id=one) for one in deleted), results)

    def _matching(self, one: AclFilter) -> Iterator[tuple[UUID, AccessControlEntry]]:
        only_match = one.only_match
        if only_match is None:
            yield from (found for found in self._state.image.access_control_entries.items() if one.matches(found[1]))
        elif (entry_id := self._state.index.acl_id(self._state.image, only_match)) is not None:
            yield entry_id, only_match

    def _new_id(self) -> UUID:
        while True:
            entry_id = UUID(bytes=self._state.random.randbytes(16), version=4)
            if entry_id not in self._state.image.access_control_entries:
                return entry_id


def _why_invalid(entry: AccessControlEntry) -> KafkaError | None:
    resource_type = name_of(ResourceType, entry.resource_type)
    operation = name_of(Operation, entry.operation)
    if resource_type in ("UNKNOWN", "ANY"):
        return _invalid(f"Invalid resourceType {resource_type}")
    if entry.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(f"Invalid patternType {name_of(PatternType, entry.pattern_type)}")
    if operation in ("UNKNOWN", "ANY"):
        return _invalid(f"Invalid operation {operation}")
    if entry.permission_type not in (Permission.DENY, Permission.ALLOW):
        return _invalid(f"Invalid permissionType {name_of(Permission, entry.permission_type)}")
    if not entry.resource_name:
        return _invalid("Resource name should not be empty")
    if ":" not in entry.principal:
        return _invalid(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


def _record(entry_id: UUID, entry: AccessControlEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
