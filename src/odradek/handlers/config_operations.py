"""The changes that a resource of IncrementalAlterConfigs asks for, whichever node is asked."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.schemas import Message


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
