"""Which settings a resource may have, in Kafka's words.

Those of a broker are judged by the broker that takes the request, before it comes to the controller.
"""

import re
from collections.abc import Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS
from odradek.config.levels import validate
from odradek.config.node_config import NodeConfig
from odradek.config.values import ConfigType
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.metadata.topic_names import why_invalid


def is_list(resource_type: int, name: str) -> bool:
    definitions = BROKER_CONFIGS if resource_type == RESOURCE_BROKER else TOPIC_CONFIGS
    definition = definitions.get(name)
    return definition is not None and definition.type is ConfigType.LIST


def default_of(resource_type: int, name: str) -> str | None:
    definitions = BROKER_CONFIGS if resource_type == RESOURCE_BROKER else TOPIC_CONFIGS
    definition = definitions.get(name)
    return None if definition is None else definition.default_text


def check_name(resource_type: int, name: str) -> None:
    if resource_type == RESOURCE_TOPIC:
        if not name:
            raise _invalid_request("Default topic resources are not allowed.")
        if (reason := why_invalid(name)) is not None:
            raise KafkaError(ErrorCode.invalid_topic_exception, reason)
    elif resource_type == RESOURCE_BROKER:
        if name and not re.fullmatch(r"-?[0-9]{1,10}", name):
            raise _invalid_request("Unable to parse broker name as a base 10 number.")
        if name.startswith("-"):
            raise _invalid_request("Invalid negative broker ID.")
    elif resource_type == RESOURCE_GROUP:
        if not name:
            raise _invalid_request("Default group resources are not allowed.")
    elif resource_type != RESOURCE_CLIENT_METRICS:
        raise _invalid_request(f"Unknown resource type {resource_type}")


def check_topic(config: NodeConfig, settings: Mapping[str, str]) -> None:
    """All settings of one topic together, `config` being those of the broker below them."""
    for name in settings:
        if name not in TOPIC_CONFIGS:
            raise _invalid_config(f"Unknown topic config name: {name}")
    for name in TOPIC_CONFIGS:
        if name in settings and (reason := validate("topic", name, settings[name])) is not None:
            raise _invalid_config(reason)
    effective = config.topic_defaults.with_overrides(settings)
    if effective.min_compaction_lag_ms > effective.max_compaction_lag_ms:
        raise _invalid_config(
            f"conflict topic config setting min.compaction.lag.ms ({effective.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({effective.max_compaction_lag_ms})"
        )
    if effective.remote_storage_enable:
        raise _invalid_config(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage."
        )


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


def _invalid_config(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, message)
