"""Describes group configs (those of consumer groups are supported) and client metrics configs (none is supported)."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from odradek.config import group_config
from odradek.config.levels import ConfigSource, DescribedConfig, LevelValue, describe_broker
from odradek.config.node_config import NodeConfig
from odradek.config.values import ConfigType


class _Default(NamedTuple):
    type: ConfigType
    value: str


_CLIENT_METRICS: Final = {
    "interval.ms": _Default(ConfigType.INT, "300000"),
    "match": _Default(ConfigType.LIST, ""),
    "metrics": _Default(ConfigType.LIST, ""),
}

_GROUP_OWN: Final = {
    "share.auto.offset.reset": _Default(ConfigType.STRING, "latest"),
    "share.isolation.level": _Default(ConfigType.STRING, "read_uncommitted"),
    "share.renew.acknowledge.enable": _Default(ConfigType.BOOLEAN, "true"),
}


def describe_client_metrics(stored: Mapping[str, str], names: Collection[str] | None) -> Iterator[DescribedConfig]:
    for name, default in _CLIENT_METRICS.items():
        if names is None or name in names:
            yield _describe(name, default, stored, ConfigSource.CLIENT_METRICS_CONFIG, ())


def describe_group(
    config: NodeConfig, stored: Mapping[str, str], names: Collection[str] | None
) -> Iterator[DescribedConfig]:
    wanted = {f"group.{name}": name for name in group_config.OF_BROKER if names is None or name in names}
    for broker_config in describe_broker(config, wanted):
        default = _Default(broker_config.type, broker_config.value or "")
        name = wanted[broker_config.name]
        yield _describe(name, default, stored, ConfigSource.GROUP_CONFIG, broker_config.synonyms)
    for name, default in _GROUP_OWN.items():
        if names is None or name in names:
            levels = (LevelValue(name, default.value, ConfigSource.DEFAULT_CONFIG),)
            yield _describe(name, default, stored, ConfigSource.GROUP_CONFIG, levels)


def _describe(
    name: str,
    default: _Default,
    stored: Mapping[str, str],
    source: ConfigSource,
    below: tuple[LevelValue, ...],
) -> DescribedConfig:
    levels = (LevelValue(name, stored[name], source), *below) if name in stored else below
    return DescribedConfig(
        name=name,
        value=stored.get(name, default.value),
        source=levels[0].source if levels else ConfigSource.DEFAULT_CONFIG,
        type=default.type,
        sensitive=False,
        read_only=False,
        synonyms=levels,
        documentation=None,
    )
