"""Which configs may contain secrets. Their values never appear in the audit log."""

from collections.abc import Mapping
from typing import Final

from odradek.config import group_config
from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS
from odradek.config.synonyms import base_name
from odradek.config.values import ConfigType
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC

REDACTED: Final = "(redacted)"
_NOT_SECRET: Final = {
    RESOURCE_GROUP: frozenset((*group_config.OF_BROKER, *group_config.OWN)),
    RESOURCE_CLIENT_METRICS: frozenset(("interval.ms", "match", "metrics")),
}


def shown_value(resource_type: int, name: str, value: str | None) -> str | None:
    """As DescribeConfigs decides: passwords and unknown configs are secret."""
    return None if value is None else REDACTED if is_secret(resource_type, name) else value


def shown_values(resource_type: int, configs: Mapping[str, str]) -> dict[str, str | None]:
    return {name: shown_value(resource_type, name, value) for name, value in configs.items()}


def is_secret(resource_type: int, name: str) -> bool:
    if resource_type == RESOURCE_TOPIC:
        definition = TOPIC_CONFIGS.get(name)
    elif resource_type == RESOURCE_BROKER:
        definition = BROKER_CONFIGS.get(name) or BROKER_CONFIGS.get(base_name(name))
    else:
        return name not in _NOT_SECRET.get(resource_type, ())
    return definition is None or definition.type is ConfigType.PASSWORD
