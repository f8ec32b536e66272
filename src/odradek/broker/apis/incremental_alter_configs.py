"""IncrementalAlterConfigs, versions 0 and 1: only the named configs change."""

from collections.abc import Awaitable

from odradek.broker.apis.config_changes import alter_configs
from odradek.broker.ports import BrokerPort
from odradek.server.apis.config_operations import read_changes
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return alter_configs(
        request, context, broker, "IncrementalAlterConfigsResponse", lambda resource, _: read_changes(resource)
    )
