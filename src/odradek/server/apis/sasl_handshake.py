"""SaslHandshake, versions 0 and 1, where no authentication is due: on listeners without SASL, and afterwards."""

from odradek.base.errors import ErrorCode
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: object) -> Message:
    return context.new("SaslHandshakeResponse", error_code=ErrorCode.illegal_sasl_state, mechanisms=())
