"""DescribeUserScramCredentials, version 0: mechanisms and iterations of users, never their keys."""

from collections import Counter
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import ClusterImage
from odradek.core.security.resources import Operation
from odradek.core.security.scram_credentials import ScramMechanism
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.wire.schemas import Message

_NO_ERROR: Final = ""
"""As in Kafka; an authorization error has no message at all."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    users = request.users or ()
    if not allows_cluster(context.access, Operation.DESCRIBE):
        error = ErrorCode.cluster_authorization_failed
        # As in Kafka, the results do not name the users.
        return _response(context, tuple(_result(context, "", error, None) for _ in users), error)
    image = broker.image
    if not users:
        names = dict.fromkeys(user for user, _ in image.scram_credentials)
        return _response(context, tuple(_describe(context, image, name) for name in names))
    counts = Counter(user.name for user in users)
    return _response(
        context,
        tuple(
            _describe(context, image, name)
            if count == 1
            else _result(
                context,
                name,
                ErrorCode.duplicate_resource,
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
            )
            for name, count in counts.items()
        ),
    )


def _describe(context: RequestContext, image: ClusterImage, user: str) -> Message:
    credentials = tuple(
        context.new("CredentialInfo", mechanism=mechanism, iterations=credential.iterations)
        for mechanism in ScramMechanism
        if (credential := image.scram_credentials.get((user, mechanism))) is not None
    )
    if credentials:
        return _result(context, user, ErrorCode.none, _NO_ERROR, credentials)
    return _result(
        context,
        user,
        ErrorCode.resource_not_found,
        f"Attempt to describe a user credential that does not exist: {user}",
    )


def _result(
    context: RequestContext, user: str, error: ErrorCode, message: str | None, credentials: tuple[Message, ...] = ()
) -> Message:
    return context.new(
        "DescribeUserScramCredentialsResult",
        user=user,
        error_code=error,
        error_message=message,
        credential_infos=credentials,
    )


def _response(context: RequestContext, results: tuple[Message, ...], error: ErrorCode = ErrorCode.none) -> Message:
    return context.new(
        "DescribeUserScramCredentialsResponse",
        throttle_time=timedelta(0),
        error_code=error,
        error_message=_NO_ERROR if error is ErrorCode.none else None,
        results=results,
    )
