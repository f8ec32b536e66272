"""IncrementalAlterConfigs, versions 0 and 1: only what is named changes."""

from collections.abc import Awaitable

from odradek.handlers.broker.config_changes import settle
from odradek.handlers.config_operations import changes_of
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return settle(request, context, broker, "IncrementalAlterConfigsResponse", lambda resource, _: changes_of(resource))
