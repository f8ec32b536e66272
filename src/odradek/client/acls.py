"""Admin operations on ACLs: list, create, delete."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# The controller writes at most 10,000 records per request.
_PER_REQUEST: Final = 1000


class Acls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def list(self, filters: Iterable[AclFilter]) -> list[AccessControlEntry]:
        """The ACLs that match at least one of the filters, sorted by resource."""
        found = {entry for one in filters for entry in self._matching(one)}
        return sorted(found, key=_order)

    def create(self, entries: Sequence[AccessControlEntry]) -> None:
        """Create ACLs; those that exist already stay. Raises KafkaError for the first that is rejected."""
        for start in range(0, len(entries), _PER_REQUEST):
            self._create(entries[start : start + _PER_REQUEST])

    def delete(self, entries: Sequence[AccessControlEntry]) -> None:
        """Delete exactly these ACLs; those that do not exist are ignored."""
        for start in range(0, len(entries), _PER_REQUEST):
            self._delete(entries[start : start + _PER_REQUEST])

    def _matching(self, wanted: AclFilter) -> Sequence[AccessControlEntry]:
        def build(chosen: Schema) -> Message:
            return chosen.new("DescribeAclsRequest", **_filter_fields(wanted))

        def attempt() -> Sequence[AccessControlEntry]:
            response = self._cluster.send_to_any(ApiKey.DESCRIBE_ACLS, build)
            raise_for_error(response)
            return [_entry(resource, acl) for resource in response.resources for acl in resource.acls]

        return self._cluster.retry("listing ACLs", attempt)

    def _create(self, entries: Sequence[AccessControlEntry]) -> None:
        def build(chosen: Schema) -> Message:
            creations = tuple(
                chosen.new(
                    "AclCreation",
                    resource_type=entry.resource_type,
                    resource_name=entry.resource_name,
                    resource_pattern_type=entry.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
                for entry in entries
            )
            return chosen.new("CreateAclsRequest", creations=creations)

        def attempt() -> None:
            for result in self._cluster.send_to_controller(ApiKey.CREATE_ACLS, build).results:
                raise_for_error(result)

        self._cluster.retry("creating ACLs", attempt)

    def _delete(self, entries: Sequence[AccessControlEntry]) -> None:
        def build(chosen: Schema) -> Message:
            filters = tuple(
                chosen.new("DeleteAclsFilter", **_filter_fields(AclFilter.exactly(entry))) for entry in entries
            )
            return chosen.new("DeleteAclsRequest", filters=filters)

        def attempt() -> None:
            for result in self._cluster.send_to_controller(ApiKey.DELETE_ACLS, build).filter_results:
                raise_for_error(result)

        self._cluster.retry("deleting ACLs", attempt)


def _filter_fields(one: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": one.resource_type,
        "resource_name_filter": one.resource_name,
        "pattern_type_filter": one.pattern_type,
        "principal_filter": one.principal,
        "host_filter": one.host,
        "operation": one.operation,
        "permission_type": one.permission_type,
    }


def _entry(resource: Message, acl: Message) -> AccessControlEntry:
    return AccessControlEntry(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _order(entry: AccessControlEntry) -> tuple[int, str, int, str, str, int, int]:
    return (
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.permission_type,
        entry.operation,
    )
