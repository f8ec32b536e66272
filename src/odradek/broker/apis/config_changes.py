"""Validates AlterConfigs and IncrementalAlterConfigs on the broker, then forwards them to the controller.

The broker rejects invalid requests, validates changes of its own configs, and applies changes of its log levels.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.ports import BrokerPort
from odradek.config.alteration import Change, alter_broker_configs, check_broker_configs
from odradek.config.alteration import Operation as ConfigOperation
from odradek.config.dynamic import ONLY_FOR_LISTENERS
from odradek.config.synonyms import base_name
from odradek.core.metadata.image import (
    NO_CONFIG,
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from odradek.core.security.resources import Operation
from odradek.server.apis.config_operations import resource_response
from odradek.server.apis.logger_levels import change_levels, node_id_of
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message

RESOURCE_BROKER_LOGGER: Final = 8

ReadChanges = Callable[[Message, BrokerPort], Sequence[Change]]
"""Reads the changes of a resource. May raise KafkaError."""


async def alter_configs(
    request: Message, context: RequestContext, broker: BrokerPort, response_name: str, read_changes: ReadChanges
) -> Message:
    """The results of this broker and of the controller, in the order of the request."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    # None: applied.
    results: dict[int, KafkaError | None] = {}
    for position, resource in enumerate(request.resources):
        try:
            if counts[(resource.resource_type, resource.resource_name)] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            _check_keys(resource)
            if _is_logger(resource, context) and not allows_cluster(context.access, Operation.ALTER_CONFIGS):
                # Kafka has no message here. Other resources are forwarded, and the controller authorizes them.
                raise KafkaError(ErrorCode.cluster_authorization_failed)
            changes = read_changes(resource, broker)
            _check(resource, changes, context, broker)
            if resource.resource_type == RESOURCE_BROKER and resource.resource_name:
                await _check_own(resource.resource_name, changes, broker)
            if resource.resource_type == RESOURCE_BROKER_LOGGER:
                change_levels(resource.resource_name, changes, broker.node_id, validate_only=request.validate_only)
                results[position] = None
        except KafkaError as error:
            results[position] = error
    remaining = tuple(one for position, one in enumerate(request.resources) if position not in results)
    decided: list[Message] = []
    if remaining:
        forwarded = replace(request, resources=remaining)
        response = await broker.controller.forward(context.client, context.api_key, context.version, forwarded)
        decided = list(response.responses)
    forwarded_results = iter(decided)
    return context.new(
        response_name,
        throttle_time=timedelta(0),
        responses=tuple(
            resource_response(context, resource, results[position]) if position in results else next(forwarded_results)
            for position, resource in enumerate(request.resources)
        ),
    )


def _is_logger(resource: Message, context: RequestContext) -> bool:
    """Kafka's AlterConfigs does not know loggers."""
    is_logger: bool = resource.resource_type == RESOURCE_BROKER_LOGGER
    return is_logger and context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS


def _check_keys(resource: Message) -> None:
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise _invalid_request("Error due to duplicate config keys")
    without_value = [config.name for config in resource.configs if config.value is None and not _is_deletion(config)]
    if without_value:
        raise _invalid_request(f"Null value not supported for : {', '.join(without_value)}")


def _is_deletion(config: Message) -> bool:
    return getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.DELETE


def _check(resource: Message, changes: Sequence[Change], context: RequestContext, broker: BrokerPort) -> None:
    if resource.resource_type == RESOURCE_BROKER:
        _check_broker(resource.resource_name, changes, broker)
    elif _is_logger(resource, context):
        # Checked when they are applied.
        return
    elif resource.resource_type not in (RESOURCE_TOPIC, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP):
        raise _invalid_request(f"Unknown resource type {resource.resource_type}")


def _check_broker(name: str, changes: Sequence[Change], broker: BrokerPort) -> None:
    if name and node_id_of(name) != broker.node_id:
        raise _invalid_request(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    stored = broker.image.configs.get((RESOURCE_BROKER, name), NO_CONFIG)
    check_broker_configs(
        broker.config,
        alter_broker_configs(stored, changes),
        per_broker=bool(name),
        changed={change.name for change in changes},
    )


async def _check_own(name: str, changes: Sequence[Change], broker: BrokerPort) -> None:
    """The key material of listeners."""
    if any(base_name(change.name) in ONLY_FOR_LISTENERS for change in changes):
        stored = broker.image.configs.get((RESOURCE_BROKER, name), NO_CONFIG)
        await broker.check_config(alter_broker_configs(stored, changes))


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
