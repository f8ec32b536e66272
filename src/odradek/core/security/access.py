"""What one principal may do from one address: the view of the authorizer that API handlers use."""

from typing import Final, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.security.resources import Operation, ResourceType


class AuthorizerNotReady(KafkaError):
    """The ACLs are not loaded yet: the client retries. A denial could make a controller or broker stop."""

    def __init__(self) -> None:
        # As in Kafka, the client receives no message.
        super().__init__(ErrorCode.unknown_server_error)

    def __str__(self) -> str:
        return "the ACLs are not loaded yet"


class Access(Protocol):
    @property
    def is_restricted(self) -> bool:
        """False without an authorizer: every check allows, so that a handler may skip it."""

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        """Raises AuthorizerNotReady, only on controllers that have just started.

        Pass `logs_denial=False` if the request may still be allowed in another way, or hides the resource."""

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this with at least one resource of the type that could exist."""


class _Unrestricted:
    is_restricted: Final = False

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        return True

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return True


UNRESTRICTED: Final[Access] = _Unrestricted()
"""Without an authorizer, and for what a node does on its own behalf."""
