"""The changes that a resource of IncrementalAlterConfigs asks for, and what it is answered, whichever node is asked."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.core.metadata.image import RESOURCE_BROKER
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def changes_of(resource: Message) -> list[Change]:
    """Raises KafkaError for an operation that nobody knows."""
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


def answer_of(context: RequestContext, resource: Message, error: KafkaError | None) -> Message:
    """`error`: None where it was done."""
    return context.new(
        "AlterConfigsResourceResponse",
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
