"""What brokers and controllers have in common in the APIs of delegation tokens: the checks and the responses."""

from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.core.security.delegation_tokens import is_same, requests_are_allowed
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

NO_TIMESTAMP: Final = -1
NO_THROTTLE: Final = timedelta(0)


def check_connection(context: RequestContext) -> None:
    """Raises KafkaError if the client may not manage tokens on its connection.

    A controller checks only the principal of a forwarded request: the connection is that of the broker.
    """
    is_allowed = (
        not context.principal.token_authenticated
        if context.is_forwarded
        else requests_are_allowed(context.principal, context.security_protocol)
    )
    if not is_allowed:
        raise KafkaError(ErrorCode.delegation_token_request_not_allowed)


def check_creation(context: RequestContext, owner: Principal) -> None:
    """Raises KafkaError. Everyone may create tokens for themselves."""
    check_connection(context)
    if not is_same(owner, context.principal) and not context.access.allows(
        Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        raise KafkaError(ErrorCode.delegation_token_authorization_failed)


def owner_of(request: Message, context: RequestContext) -> Principal | None:
    """The owner of a new token: the requester, unless the request names another. None: a name without a type."""
    name = getattr(request, "owner_principal_name", None)
    if not name:
        return context.principal
    return None if request.owner_principal_type is None else Principal(request.owner_principal_type, name)


def build_creation_error(
    messages: Schema, error: ErrorCode, owner: Principal, requester: Principal, *, timestamp: int = NO_TIMESTAMP
) -> Message:
    return messages.new(
        "CreateDelegationTokenResponse",
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=timestamp,
        expiry_timestamp=timestamp,
        max_timestamp=timestamp,
        token_id="",
        hmac=b"",
        throttle_time=NO_THROTTLE,
    )


def build_renewal_response(messages: Schema, error: ErrorCode, expiry_timestamp: int) -> Message:
    return messages.new(
        "RenewDelegationTokenResponse",
        error_code=error,
        expiry_timestamp=expiry_timestamp,
        throttle_time=NO_THROTTLE,
    )


def build_expiration_response(messages: Schema, error: ErrorCode, expiry_timestamp: int) -> Message:
    return messages.new(
        "ExpireDelegationTokenResponse",
        error_code=error,
        expiry_timestamp=expiry_timestamp,
        throttle_time=NO_THROTTLE,
    )
