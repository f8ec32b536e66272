"""Which limit applies to a client, if there are several for its user and its client ID."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.entities import CLIENT_ID, USER

_ANY: Final = None
"""The default of all users or client IDs that have none of their own."""
_Level = tuple[bool, str | None, bool, str | None]
"""Whether it has a user and which one, whether it has a client ID and which one."""


class AppliedLimit(NamedTuple):
    """Clients with the same user and client ID here share one limit, and Kafka tags their metrics with these."""

    user: str
    client_id: str | None
    limit: float


class LimitTable:
    """The limits of one key, such as `producer_byte_rate`."""

    def __init__(self, limits: Mapping[QuotaEntityKey, float]) -> None:
        self._limits: Final[dict[_Level, float]] = {}
        for entity, limit in limits.items():
            names = dict(entity)
            if names.keys() <= {USER, CLIENT_ID}:
                level = (USER in names, names.get(USER), CLIENT_ID in names, names.get(CLIENT_ID))
                self._limits[level] = limit

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str | None) -> AppliedLimit | None:
        """The most specific one. None: the client is not limited."""
        limits = self._limits
        for level in _levels(user, client_id):
            limit = limits.get(level)
            if limit is None:
                continue
            has_user, _, has_client_id, _ = level
            if not has_client_id:
                return AppliedLimit(user, "", limit)
            # As in Kafka, a request without a client ID has only limits of its user.
            if client_id:
                return AppliedLimit(user if has_user else "", client_id, limit)
            return self._find_for_user(user) if has_user and client_id == "" else None
        return None

    def _find_for_user(self, user: str) -> AppliedLimit | None:
        for level in ((True, user, False, None), (True, _ANY, False, None)):
            limit = self._limits.get(level)
            if limit is not None:
                return AppliedLimit(user, "", limit)
        return None


def _levels(user: str, client_id: str | None) -> tuple[_Level, ...]:
    """From the most specific one to the least."""
    # A missing client ID must not be looked up as the default.
    named = "" if client_id is None else client_id
    return (
        (True, user, True, named),
        (True, user, True, _ANY),
        (True, user, False, None),
        (True, _ANY, True, named),
        (True, _ANY, True, _ANY),
        (True, _ANY, False, None),
        (False, None, True, named),
        (False, None, True, _ANY),
    )
