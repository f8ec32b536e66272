"""What AlterConfigs and IncrementalAlterConfigs have in common: the checks of resources and the response.

A broker has checked the requests that it forwards. A client that connects to a controller directly may name a resource
twice, a resource of an unknown type, or the loggers of this node: the rest goes to the active controller.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
)
from odradek.core.security.resources import Operation
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort, Execute
from odradek.server.config_access import find_denial
from odradek.server.context import RequestContext
from odradek.wire.forwarding import is_from_wrong_node
from odradek.wire.schemas import Message, Schema

RESOURCE_BROKER_LOGGER: Final = 8
_KNOWN_TYPES: Final = frozenset(
    {RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP}
)

Result = tuple[ConfigResource, KafkaError | None]


async def alter_resources(
    request: Message,
    context: RequestContext,
    node: ControllerNodePort,
    *,
    execute: Execute,
    alter_loggers: Callable[[Message], KafkaError | None],
) -> Message:
    counts = Counter(map(resource_of, request.resources))
    rejected: dict[ConfigResource, KafkaError | None] = {}
    loggers: list[Result] = []
    remaining: list[Message] = []
    for resource in request.resources:
        name = resource_of(resource)
        if resource.resource_type not in _KNOWN_TYPES:
            reason = f"Unknown resource type {resource.resource_type}."
            rejected[name] = KafkaError(ErrorCode.unsupported_version, reason)
        elif resource.resource_type == RESOURCE_BROKER_LOGGER:
            loggers.append((name, alter_loggers(resource)))
        elif counts[name] > 1:
            rejected[name] = KafkaError(ErrorCode.invalid_request, "Duplicate resource.")
        elif (denial := find_denial(resource, Operation.ALTER_CONFIGS, context.access)) is not None:
            rejected[name] = denial
        else:
            remaining.append(resource)
    messages = context.schema
    altered: tuple[Message, ...] = ()
    if remaining:
        remaining_request = replace(request, resources=tuple(remaining))
        response = await node.controller.handle(remaining_request, messages, execute, build_error_response)
        altered = response.responses
        if is_from_wrong_node(context.api_key, response):
            # As in Kafka, the whole request fails, so that a broker sends all of it to the active controller.
            return build_error_response(request, messages, KafkaError(altered[0].error_code, altered[0].error_message))
    return _response(messages, (*_responses(messages, rejected.items()), *altered, *_responses(messages, loggers)))


def resource_of(resource: Message) -> ConfigResource:
    return (resource.resource_type, resource.resource_name)


def build_response(request: Message, messages: Schema, results: Mapping[ConfigResource, KafkaError | None]) -> Message:
    """One result for each resource of the request, in its order."""
    names = map(resource_of, request.resources)
    return _response(messages, _responses(messages, ((name, results[name]) for name in names)))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, _responses(messages, ((resource_of(one), error) for one in request.resources)))


def _response(messages: Schema, responses: tuple[Message, ...]) -> Message:
    return messages.response_type(throttle_time=NO_THROTTLE, responses=responses)


def _responses(messages: Schema, results: Iterable[Result]) -> tuple[Message, ...]:
    return tuple(
        messages.new(
            "AlterConfigsResourceResponse",
            error_code=code_of(error),
            error_message=message_of(error),
            resource_type=resource[0],
            resource_name=resource[1],
        )
        for resource, error in results
    )
