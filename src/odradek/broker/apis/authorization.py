"""Checks of what the client of a request may do, shared by several APIs.

Without an authorizer nothing is checked.
"""

from collections.abc import Iterable
from typing import Final

from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType


class AllowedTopics:
    """The topics on which the client of one request may perform an operation. Each topic is checked once."""

    __slots__ = ("_access", "_checked", "_operation")

    def __init__(self, access: Access, operation: Operation) -> None:
        self._access: Final = access
        self._operation: Final = operation
        self._checked: Final[dict[str, bool]] = {}

    def __contains__(self, topic: str) -> bool:
        allowed = self._checked.get(topic)
        if allowed is None:
            allowed = self._access.allows(self._operation, ResourceType.TOPIC, topic)
            self._checked[topic] = allowed
        return allowed


def allowed_topics(access: Access, operation: Operation) -> AllowedTopics | None:
    """None without an authorizer: all topics."""
    return AllowedTopics(access, operation) if access.is_restricted else None


def may_read_group(access: Access, group_id: str) -> bool:
    return access.allows(Operation.READ, ResourceType.GROUP, group_id)


def split_groups(group_ids: Iterable[str], operation: Operation, access: Access) -> tuple[list[str], list[str]]:
    """The groups on which the client may perform the operation, and the others."""
    allowed: list[str] = []
    denied: list[str] = []
    for group_id in group_ids:
        (allowed if access.allows(operation, ResourceType.GROUP, group_id) else denied).append(group_id)
    return allowed, denied


def may_write_transaction(access: Access, transactional_id: str) -> bool:
    return access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
