"""DescribeDelegationToken, versions 1 to 3, from the broker's image.

A principal sees the tokens that it owns, requested or may renew. Others need DESCRIBE on the token, or
DESCRIBE_TOKENS on its owner.
"""

from collections.abc import Iterator, Set
from datetime import timedelta

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import DelegationToken
from odradek.core.security.delegation_tokens import is_party, token_hmac
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.apis.delegation_tokens import check_connection
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    secret = broker.config.delegation_token_secret_key
    try:
        check_connection(context)
        if not secret:
            raise KafkaError(ErrorCode.delegation_token_auth_disabled)
    except KafkaError as error:
        return _response(context, error.code, ())
    owners = None if request.owners is None else {str(_principal_of(one)) for one in request.owners}
    tokens = tuple(
        _describe(context, token_id, token, token_hmac(secret, token_id))
        for token_id, token in _visible_tokens(context, broker, owners)
    )
    return _response(context, ErrorCode.none, tokens)


def _visible_tokens(
    context: RequestContext, broker: BrokerPort, owners: Set[str] | None
) -> Iterator[tuple[str, DelegationToken]]:
    """`owners`: only the tokens that one of them owns, requested or may renew. None: of all."""
    for token_id, token in broker.image.delegation_tokens.items():
        if owners is not None and owners.isdisjoint((token.owner, token.requester, *token.renewers)):
            continue
        if is_party(token, context.principal) or _may_describe(context, token_id, token):
            yield token_id, token


def _may_describe(context: RequestContext, token_id: str, token: DelegationToken) -> bool:
    access = context.access
    return access.allows(
        Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id, logs_denial=False
    ) or access.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, logs_denial=False)


def _describe(context: RequestContext, token_id: str, token: DelegationToken, hmac: bytes) -> Message:
    owner, requester = _parse(token.owner), _parse(token.requester)
    return context.new(
        "DescribedDelegationToken",
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token_id,
        hmac=hmac,
        renewers=tuple(
            context.new("DescribedDelegationTokenRenewer", principal_type=renewer.type, principal_name=renewer.name)
            for renewer in map(_parse, token.renewers)
        ),
    )


def _parse(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def _principal_of(owner: Message) -> Principal:
    return Principal(owner.principal_type, owner.principal_name)


def _response(context: RequestContext, error: ErrorCode, tokens: tuple[Message, ...]) -> Message:
    return context.new("DescribeDelegationTokenResponse", error_code=error, tokens=tokens, throttle_time=timedelta(0))
