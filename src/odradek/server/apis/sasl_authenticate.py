"""SaslAuthenticate, versions 0 to 2, where no authentication is due: on listeners without SASL, and afterwards."""

from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: object) -> Message:
    return context.new(
        "SaslAuthenticateResponse",
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime=timedelta(0),
    )
