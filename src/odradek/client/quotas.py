"""Client quotas: list them, and set and remove limits of users, client IDs and IP addresses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

DEFAULT: Final = None
"""In place of a name: all users, client IDs or addresses that have no limit of their own."""
_MATCH_EXACT: Final = 0
_MATCH_DEFAULT: Final = 1

QuotaEntity = Mapping[str, str | None]
"""Names by entity type: `user`, `client-id` or `ip`."""


@dataclass(frozen=True, slots=True)
class Quota:
    entity: QuotaEntity
    limits: Mapping[str, float]


class Quotas:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def list(self, entity: QuotaEntity, *, exactly: bool = False) -> list[Quota]:
        """Return the quotas whose entity includes these names, or has exactly them."""

        def build(chosen: Schema) -> Message:
            components = tuple(
                chosen.new(
                    "ComponentData",
                    entity_type=kind,
                    match_type=_MATCH_DEFAULT if name is DEFAULT else _MATCH_EXACT,
                    match=name,
                )
                for kind, name in entity.items()
            )
            return chosen.new("DescribeClientQuotasRequest", components=components, strict=exactly)

        def attempt() -> list[Quota]:
            response = self._cluster.send_to_any(ApiKey.DESCRIBE_CLIENT_QUOTAS, build)
            raise_for_error(response)
            found = (
                Quota(
                    {part.entity_type: part.entity_name for part in entry.entity},
                    {limit.key: limit.value for limit in entry.values},
                )
                for entry in response.entries or ()
            )
            return sorted(found, key=_order)

        return self._cluster.retry("listing client quotas", attempt)

    def change(self, entity: QuotaEntity, limits: Mapping[str, float | None]) -> None:
        """Set limits by key; None removes a limit."""

        def build(chosen: Schema) -> Message:
            parts = tuple(
                chosen.new_in_request("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()
            )
            changes = tuple(
                chosen.new_in_request("OpData", key=key, value=value or 0.0, remove=value is None)
                for key, value in limits.items()
            )
            entry = chosen.new_in_request("EntryData", entity=parts, ops=changes)
            return chosen.new("AlterClientQuotasRequest", entries=(entry,), validate_only=False)

        def attempt() -> None:
            raise_for_error(self._cluster.send_to_controller(ApiKey.ALTER_CLIENT_QUOTAS, build).entries[0])

        self._cluster.retry("changing client quotas", attempt)


def _order(quota: Quota) -> list[tuple[str, str]]:
    return [(kind, name or "") for kind, name in sorted(quota.entity.items())]
