"""Reads the changes of an IncrementalAlterConfigs resource and builds its response, on brokers and controllers."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.core.metadata.image import RESOURCE_BROKER
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def read_changes(resource: Message) -> list[Change]:
    """Raises KafkaError for an unknown operation."""
    return [Change(config.name, _operation(resource, config), config.value) for config in resource.configs]


def _operation(resource: Message, config: Message) -> Operation:
    try:
        return Operation(config.config_operation)
    except ValueError:
        if resource.resource_type == RESOURCE_BROKER:
            reason = f"Unknown operations type {config.config_operation}"
            raise KafkaError(ErrorCode.invalid_request, reason) from None
        # Kafka's response to an unknown operation.
        raise KafkaError(ErrorCode.unknown_server_error) from None


def resource_response(context: RequestContext, resource: Message, error: KafkaError | None) -> Message:
    """`error` is None if the changes were applied."""
    return context.new(
        "AlterConfigsResourceResponse",
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
