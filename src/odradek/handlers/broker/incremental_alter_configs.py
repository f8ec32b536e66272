"""IncrementalAlterConfigs, versions 0 and 1: only what is named changes."""

from collections.abc import Awaitable, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.handlers.broker.config_changes import settle
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return settle(request, context, broker, "IncrementalAlterConfigsResponse", _changes_of)


def _changes_of(resource: Message, broker: BrokerPort) -> Sequence[Change]:
    return [Change(config.name, _operation(resource, config), config.value) for config in resource.configs]


def _operation(resource: Message, config: Message) -> Operation:
    try:
        return Operation(config.config_operation)
    except ValueError:
        if resource.resource_type == RESOURCE_BROKER:
            reason = f"Unknown operations type {config.config_operation}"
            raise KafkaError(ErrorCode.invalid_request, reason) from None
        # Kafka's answer to an operation that nobody knows.
        raise KafkaError(ErrorCode.unknown_server_error) from None
