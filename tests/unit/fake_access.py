"""An `Access` that allows a fixed set of operations, and records what was requested."""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType

Grant = tuple[Operation, ResourceType, str]


def on_cluster(operation: Operation) -> Grant:
    return (operation, ResourceType.CLUSTER, CLUSTER_NAME)


def on_topic(operation: Operation, name: str) -> Grant:
    return (operation, ResourceType.TOPIC, name)


class Request(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    name: str
    logs_denial: bool


class FakeAccess:
    """Implies nothing: an operation is allowed only if it was granted for the exact resource."""

    is_restricted = True

    def __init__(self, *allowed: Grant) -> None:
        self.allowed = set(allowed)
        self.requests: list[Request] = []
        self.requests_by_type: list[tuple[Operation, ResourceType]] = []

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        self.requests.append(Request(operation, resource_type, name, logs_denial))
        return (operation, resource_type, name) in self.allowed

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        self.requests_by_type.append((operation, resource_type))
        return any(one[:2] == (operation, resource_type) for one in self.allowed)

    def grants_requested(self) -> list[Grant]:
        return [one[:3] for one in self.requests]

    def logged_denials(self) -> list[Grant]:
        return [one[:3] for one in self.requests if one.logs_denial and one[:3] not in self.allowed]

    def allow(self, grants: Iterable[Grant]) -> None:
        self.allowed.update(grants)
