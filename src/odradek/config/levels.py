"""Describes configs for DescribeConfigs: the effective value of each, its source, and its synonyms."""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from odradek.config import supported
from odradek.config.definitions import BROKER_CONFIGS, OF_AUTHORIZER, TOPIC_CONFIGS, ConfigDefinition, UpdateMode
from odradek.config.node_config import NodeConfig
from odradek.config.synonyms import TOPIC_SYNONYMS, base_name, broker_synonyms
from odradek.config.topic_config import Texts, broker_default
from odradek.config.values import ConfigType, InvalidValue, format_value


class ConfigSource(IntEnum):
    """Numbered as DescribeConfigs puts them on the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class LevelValue(NamedTuple):
    """The value at one level, under its name at that level."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    """None also for a value that must not be shown."""
    source: ConfigSource
    type: ConfigType
    sensitive: bool
    read_only: bool
    synonyms: tuple[LevelValue, ...]
    """The values of all levels, the effective one first."""
    documentation: str | None


def describe_broker(config: NodeConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """Every config of the node, or those in `names`."""
    known = (name for name, definition in BROKER_CONFIGS.items() if not definition.is_hidden_until_set)
    return [
        _describe_broker_config(config, name, _broker_value(config.effective_values, name))
        for name in dict.fromkeys((*known, *config.effective_values))
        if names is None or name in names
    ]


def describe_cluster_default(config: NodeConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """The configs that were set for all brokers at run time."""
    described: list[DescribedConfig] = []
    for name, text in config.dynamic_cluster_default.items():
        if names is None or name in names:
            one = _describe_broker_config(config, name, text)
            of_this_level = tuple(
                level for level in one.synonyms if level.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            described.append(one._replace(synonyms=of_this_level, source=_source(of_this_level)))
    return described


def describe_topic(
    config: NodeConfig, topic_overrides: Texts, names: Collection[str] | None = None
) -> list[DescribedConfig]:
    return [
        _describe_topic_config(config, name, topic_overrides.get(name))
        for name, definition in TOPIC_CONFIGS.items()
        if (names is None or name in names) and (name in topic_overrides or not definition.is_internal)
    ]


def _describe_broker_config(config: NodeConfig, name: str, value: str | None) -> DescribedConfig:
    base = base_name(name)
    definition = None if name in OF_AUTHORIZER else BROKER_CONFIGS.get(base)
    exact = BROKER_CONFIGS.get(name)
    sensitive = definition is None or definition.is_sensitive
    levels = _broker_levels(config, name, (name, base) if base != name else broker_synonyms(name), sensitive)
    return DescribedConfig(
        name=name,
        value=None if sensitive else value,
        source=_source(levels),
        type=ConfigType.UNKNOWN if definition is None else definition.type,
        sensitive=sensitive,
        read_only=exact is None or not exact.is_dynamic,
        synonyms=levels,
        documentation=supported.BROKER.get(name),
    )


@lru_cache(maxsize=1024)
def _describe_topic_config(config: NodeConfig, name: str, override: str | None) -> DescribedConfig:
    """Cached, since most topics share most of their configs."""
    definition = TOPIC_CONFIGS[name]
    levels: tuple[LevelValue, ...] = ()
    if synonyms := TOPIC_SYNONYMS.get(name):
        broker_config = synonyms[0].broker_config
        levels = _broker_levels(config, broker_config, broker_synonyms(broker_config), definition.is_sensitive)
    if override is not None:
        value = _format_stored(definition, override)
        levels = (LevelValue(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG), *levels)
    else:
        value = format_value(broker_default(definition, (config.effective_values,)))
    return DescribedConfig(
        name=name,
        value=value,
        source=_source(levels),
        type=definition.type,
        sensitive=False,
        read_only=False,
        synonyms=levels,
        documentation=supported.TOPIC.get(name),
    )


def _format_stored(definition: ConfigDefinition, text: str) -> str | None:
    """An invalid stored value is shown unchanged, so that it can be found and deleted."""
    try:
        return format_value(definition.parse(text))
    except InvalidValue:
        return text


def _broker_value(effective_values: Texts, name: str) -> str | None:
    definition = BROKER_CONFIGS.get(name)
    text = effective_values.get(name)
    if definition is None or definition.is_internal:
        return text
    return format_value(definition.default if text is None else definition.parse(text))


def _broker_levels(config: NodeConfig, name: str, synonyms: Iterable[str], sensitive: bool) -> tuple[LevelValue, ...]:
    """From the highest level down, starting with the first value under the name itself, as Kafka does."""
    names = tuple(synonyms)
    texts: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_cluster_default),
        (ConfigSource.STATIC_BROKER_CONFIG, config.values),
        (ConfigSource.DEFAULT_CONFIG, _default_texts(names)),
    )
    levels = [
        LevelValue(one, None if sensitive else level[one], source)
        for source, level in texts
        for one in names
        if one in level
    ]
    own = next((position for position, level in enumerate(levels) if level.name == name), len(levels))
    return tuple(levels[own:])


def _default_texts(names: Iterable[str]) -> dict[str, str]:
    definitions = (BROKER_CONFIGS[name] for name in names if name in BROKER_CONFIGS and name not in OF_AUTHORIZER)
    return {
        definition.name: definition.default_text
        for definition in definitions
        if definition.default_text is not None
        and not definition.is_required
        and definition.update_mode is not UpdateMode.DYNAMIC_ONLY
    }


def _source(levels: tuple[LevelValue, ...]) -> ConfigSource:
    return levels[0].source if levels else ConfigSource.DEFAULT_CONFIG


def validate(kind: str, name: str, value: str) -> str | None:
    """Kafka's error message for an invalid value, or None. `kind` is broker or topic."""
    definitions = {"broker": BROKER_CONFIGS, "topic": TOPIC_CONFIGS}[kind]
    definition = definitions.get(name)
    if definition is None:
        return f"Unknown topic config name: {name}" if kind == "topic" else None
    try:
        definition.parse(value)
    except InvalidValue as invalid:
        return str(invalid)
    return None
