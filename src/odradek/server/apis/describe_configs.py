"""DescribeConfigs, versions 1 to 4: effective values, their sources, and their synonyms.

Differences from Kafka: the documentation is this project's own, and only for supported configs; the loggers are those
of this process.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, NoReturn

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.message_walk import ANY_NUMBER
from odradek.config.levels import (
    ConfigSource,
    DescribedConfig,
    LevelValue,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from odradek.config.values import ConfigType
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.core.metadata.topic_names import why_invalid
from odradek.core.security.resources import Operation
from odradek.server.apis import logger_levels
from odradek.server.apis.unserved_configs import describe_client_metrics, describe_group
from odradek.server.config_access import find_denial
from odradek.server.context import ConfiguredNode, RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_RESOURCE_BROKER_LOGGER: Final = 8
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
_RESOURCES_PER_STEP: Final = 20

# None: every config.
_Names = Collection[str] | None


async def handle(request: Message, context: RequestContext, node: ConfiguredNode) -> Message:
    if any(resource.resource_type not in _DESCRIBERS for resource in request.resources):
        # One resource of an unknown type makes Kafka reject the whole request.
        error = KafkaError(ErrorCode.invalid_request, _MALFORMED)
        results = [_result(resource, error, (), context) for resource in request.resources]
    else:
        results = []
        denied = []
        for number, resource in enumerate(request.resources):
            denial = find_denial(resource, Operation.DESCRIBE_CONFIGS, context.access)
            if denial is None:
                results.append(_describe(resource, request, context, node))
            else:
                denied.append(_result(resource, denial, (), context))
            if number % _RESOURCES_PER_STEP == _RESOURCES_PER_STEP - 1:
                # Every resource has dozens of configs: other connections take turns.
                await asyncio.sleep(0)
        results += denied
    return context.new("DescribeConfigsResponse", throttle_time=timedelta(0), results=tuple(results))


def _describe(resource: Message, request: Message, context: RequestContext, node: ConfiguredNode) -> Message:
    try:
        described = _DESCRIBERS[resource.resource_type](
            resource.resource_name, resource.configuration_keys or None, node
        )
    except KafkaError as error:
        return _result(resource, error, (), context)
    documented = getattr(request, "include_documentation", False)
    configs = (_config(one, request.include_synonyms, documented, context) for one in described)
    return _result(resource, None, tuple(configs), context)


def _topic(name: str, names: _Names, node: ConfiguredNode) -> Iterable[DescribedConfig]:
    invalid = why_invalid(name)
    if invalid is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, invalid)
    if name not in node.image.topics_by_name:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, "")
    return describe_topic(node.config, node.image.topic_config(name), names)


def _broker(name: str, names: _Names, node: ConfiguredNode) -> Iterable[DescribedConfig]:
    if not name:
        return describe_cluster_default(node.config, names)
    if _broker_id(name) != node.node_id:
        _refuse(f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}")
    return describe_broker(node.config, names)


def _broker_logger(name: str, names: _Names, node: ConfiguredNode) -> Iterable[DescribedConfig]:
    if not name:
        _refuse("Broker id must not be empty")
    if _broker_id(name) != node.node_id:
        _refuse(f"Unexpected broker id, expected {node.node_id} but received {name}")
    return [
        DescribedConfig(
            name=logger_name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            type=ConfigType.UNKNOWN,
            sensitive=False,
            read_only=False,
            synonyms=(),
            documentation="",
        )
        for logger_name, level in logger_levels.levels().items()
        if names is None or logger_name in names
    ]


def _client_metrics(name: str, names: _Names, node: ConfiguredNode) -> Iterable[DescribedConfig]:
    if not name:
        _refuse("Client metrics subscription name must not be empty")
    return describe_client_metrics(_stored_configs(RESOURCE_CLIENT_METRICS, name, node), names)


def _group(name: str, names: _Names, node: ConfiguredNode) -> Iterable[DescribedConfig]:
    if not name:
        _refuse("Group name must not be empty")
    return describe_group(node.config, _stored_configs(RESOURCE_GROUP, name, node), names)


def _stored_configs(kind: int, name: str, node: ConfiguredNode) -> Mapping[str, str]:
    return node.image.configs.get((kind, name), {})


def _broker_id(name: str) -> int:
    if not _INTEGER.fullmatch(name) or not -(2**31) <= int(name) < 2**31:
        _refuse(f"Broker id must be an integer, but it is: {name}")
    return int(name)


def _refuse(message: str) -> NoReturn:
    raise KafkaError(ErrorCode.invalid_request, message)


_DESCRIBERS: Final[Mapping[int, Callable[[str, _Names, ConfiguredNode], Iterable[DescribedConfig]]]] = {
    RESOURCE_TOPIC: _topic,
    RESOURCE_BROKER: _broker,
    _RESOURCE_BROKER_LOGGER: _broker_logger,
    RESOURCE_CLIENT_METRICS: _client_metrics,
    RESOURCE_GROUP: _group,
}


def _config(one: DescribedConfig, with_synonyms: bool, documented: bool, context: RequestContext) -> Message:
    return context.new(
        "DescribeConfigsResourceResult",
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.source,
        is_sensitive=one.sensitive,
        synonyms=tuple(_synonym(level, context) for level in one.synonyms) if with_synonyms else (),
        config_type=one.type,
        documentation=one.documentation if documented or one.documentation == "" else None,
    )


def _synonym(level: LevelValue, context: RequestContext) -> Message:
    return context.new("DescribeConfigsSynonym", name=level.name, value=level.value, source=level.source)


def _result(
    resource: Message, error: KafkaError | None, configs: tuple[Message, ...], context: RequestContext
) -> Message:
    return context.new(
        "DescribeConfigsResult",
        error_code=ErrorCode.none if error is None else error.code,
        error_message="" if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
