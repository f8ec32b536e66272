"""AlterConfigs, versions 0 to 2, and IncrementalAlterConfigs, versions 0 and 1, as controllers take them.

A broker has looked at what it hands on. A client that asks a controller itself may name a resource twice, of a type
that nobody knows, or this node's loggers: that is answered here, and the rest by the active controller.
"""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.config_operations import answer_of, changes_of
from odradek.server.apis.logger_levels import change_levels
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

INCREMENTAL_ALTER_CONFIGS: Final = 44
RESOURCE_BROKER_LOGGER: Final = 8
_KNOWN_TYPES: Final = frozenset(
    {RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP}
)


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    counts = Counter(map(_name_of, request.resources))
    refused: dict[tuple[int, str], Message] = {}
    loggers: list[Message] = []
    remaining: list[Message] = []
    for resource in request.resources:
        if resource.resource_type not in _KNOWN_TYPES:
            error = KafkaError(ErrorCode.unsupported_version, f"Unknown resource type {resource.resource_type}.")
            refused[_name_of(resource)] = answer_of(context, resource, error)
        elif resource.resource_type == RESOURCE_BROKER_LOGGER:
            loggers.append(answer_of(context, resource, _change_loggers(resource, request, context, node)))
        elif counts[_name_of(resource)] > 1:
            error = KafkaError(ErrorCode.invalid_request, "Duplicate resource.")
            refused[_name_of(resource)] = answer_of(context, resource, error)
        else:
            remaining.append(resource)
    decided: tuple[Message, ...] = ()
    if remaining:
        asked = replace(request, resources=tuple(remaining))
        decided = (await node.controller.handle(context.api_key, context.version, asked)).responses
    return context.schema.response_type(throttle_time=timedelta(0), responses=(*refused.values(), *decided, *loggers))


def _name_of(resource: Message) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _change_loggers(
    resource: Message, request: Message, context: RequestContext, node: ControllerNodePort
) -> KafkaError | None:
    if context.api_key != INCREMENTAL_ALTER_CONFIGS:
        return KafkaError(ErrorCode.invalid_request, "Unexpected resource type BROKER_LOGGER.")
    try:
        changes = changes_of(resource)
        change_levels(resource.resource_name, changes, node.node_id, validate_only=request.validate_only)
    except KafkaError as error:
        return error
    return None
