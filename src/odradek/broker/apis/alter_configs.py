"""AlterConfigs, versions 0 to 2: configs that the request does not name return to their defaults."""

from collections.abc import Awaitable, Sequence

from odradek.broker.apis.config_changes import alter_configs
from odradek.broker.ports import BrokerPort
from odradek.config.alteration import Change, Operation
from odradek.core.metadata.image import NO_CONFIG
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return alter_configs(request, context, broker, "AlterConfigsResponse", _read_changes)


def _read_changes(resource: Message, broker: BrokerPort) -> Sequence[Change]:
    stored = broker.image.configs.get((resource.resource_type, resource.resource_name), NO_CONFIG)
    named = {config.name for config in resource.configs}
    return [
        *(Change(config.name, Operation.SET, config.value) for config in resource.configs),
        *(Change(name, Operation.DELETE, None) for name in stored if name not in named),
    ]
