"""What a broker settles of AlterConfigs and IncrementalAlterConfigs before the controller is asked.

Broken requests are refused here, and what concerns this broker's own configs is judged here, where they are in force.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation, altered_broker_configs, check_broker_configs
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.metadata.image import (
    NO_CONFIG,
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from odradek.protocol.schemas import Message

INCREMENTAL_ALTER_CONFIGS: Final = 44
RESOURCE_BROKER_LOGGER: Final = 8

ChangesOf = Callable[[Message, BrokerPort], Sequence[Change]]
"""The changes that a resource of the request asks for. May raise KafkaError."""


async def settle(
    request: Message, context: RequestContext, broker: BrokerPort, response_name: str, changes_of: ChangesOf
) -> Message:
    """Answers what can be answered here, and the rest as the controller answers it, in the request's order."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    refused: dict[int, KafkaError] = {}
    for position, resource in enumerate(request.resources):
        try:
            if counts[(resource.resource_type, resource.resource_name)] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            _check(resource, context.api_key, broker, changes_of)
        except KafkaError as error:
            refused[position] = error
    remaining = tuple(one for position, one in enumerate(request.resources) if position not in refused)
    decided: list[Message] = []
    if remaining:
        forwarded = replace(request, resources=remaining)
        answer = await broker.controller.forward(context.client, context.api_key, context.version, forwarded)
        decided = list(answer.responses)
    answers = iter(decided)
    return context.new(
        response_name,
        throttle_time=timedelta(0),
        responses=tuple(
            _refusal(context, resource, refused[position]) if position in refused else next(answers)
            for position, resource in enumerate(request.resources)
        ),
    )


def _check(resource: Message, api_key: int, broker: BrokerPort, changes_of: ChangesOf) -> None:
    changes = changes_of(resource, broker)
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise _invalid_request("Error due to duplicate config keys")
    without_value = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if without_value:
        raise _invalid_request(f"Null value not supported for : {', '.join(without_value)}")
    if resource.resource_type == RESOURCE_BROKER:
        _check_broker(resource.resource_name, changes, broker)
    elif resource.resource_type == RESOURCE_BROKER_LOGGER and api_key == INCREMENTAL_ALTER_CONFIGS:
        node_id = _node_id(resource.resource_name)
        if node_id != broker.node_id:
            raise _invalid_request(f"Unexpected node id. Expected {broker.node_id}, but received {node_id}")
        for change in changes:
            # Kafka's loggers are Java's: no name that a client may know exists here.
            raise KafkaError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
    elif resource.resource_type not in (RESOURCE_TOPIC, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP):
        raise _invalid_request(f"Unknown resource type {resource.resource_type}")


def _check_broker(name: str, changes: Sequence[Change], broker: BrokerPort) -> None:
    if name and _node_id(name) != broker.node_id:
        raise _invalid_request(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    stored = broker.image.configs.get((RESOURCE_BROKER, name), NO_CONFIG)
    check_broker_configs(
        broker.config,
        altered_broker_configs(stored, changes),
        per_broker=bool(name),
        changed={change.name for change in changes},
    )


def _node_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _invalid_request(f"Node id must be an integer, but it is: {name}") from None


def _refusal(context: RequestContext, resource: Message, error: KafkaError) -> Message:
    return context.new(
        "AlterConfigsResourceResponse",
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
