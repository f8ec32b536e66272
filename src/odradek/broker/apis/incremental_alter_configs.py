"""IncrementalAlterConfigs, versions 0 and 1: only what is named changes."""

from collections.abc import Awaitable

from odradek.broker.apis.config_changes import settle
from odradek.broker.ports import BrokerPort
from odradek.server.apis.config_operations import read_changes
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return settle(
        request, context, broker, "IncrementalAlterConfigsResponse", lambda resource, _: read_changes(resource)
    )
