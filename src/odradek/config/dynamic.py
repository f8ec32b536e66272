"""Dynamic broker configs: which configs are dynamic, and how they override the file.

The metadata has two levels: for one broker and for all brokers. The first takes precedence. Stored configs that are
invalid are skipped, as in Kafka, so that they cannot keep a node from starting.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from odradek.config import supported
from odradek.config.definitions import BROKER_CONFIGS, UpdateMode
from odradek.config.listeners import AddressError
from odradek.config.node_checks import parse_ip_overrides
from odradek.config.node_config import NodeConfig
from odradek.config.synonyms import LISTENER_CONFIG, base_name, broker_synonyms
from odradek.config.tls_settings import RELOADED
from odradek.config.topic_config import Texts, TopicConfig
from odradek.config.values import ConfigValue, InvalidValue

CLUSTER_WIDE_FOR_LISTENERS = frozenset({"max.connection.creation.rate", "max.connections", "num.network.threads"})
"""Configs of a single listener that may be set for all brokers."""

ONLY_FOR_LISTENERS = frozenset(RELOADED)
"""Configs that are dynamic only with a listener prefix, as in `listener.name.internal.ssl.keystore.location`."""


def is_dynamic(name: str) -> bool:
    """Whether it may change at run time. Unknown names may: Kafka keeps them for plugins."""
    definition = BROKER_CONFIGS.get(name)
    return definition is None or definition.is_dynamic


def needs_broker_id(name: str) -> bool:
    """Whether it may change only for one broker, never for all brokers."""
    if LISTENER_CONFIG.fullmatch(name):
        return base_name(name) not in CLUSTER_WIDE_FOR_LISTENERS
    definition = BROKER_CONFIGS.get(name)
    return definition is not None and definition.update_mode is UpdateMode.PER_BROKER


def overlay(config: NodeConfig, dynamic_broker: Texts, dynamic_cluster_default: Texts) -> NodeConfig:
    """The configuration of the file with these dynamic configs applied."""
    of_broker = _usable(dynamic_broker, per_broker=True)
    of_cluster = _usable(dynamic_cluster_default, per_broker=False)
    effective_values = merge(config.values, of_cluster, of_broker)
    return replace(
        config,
        **{field: _setting(name, effective_values.get(name)) for name, field in _DYNAMIC_SETTINGS.items()},
        topic_defaults=TopicConfig.broker_defaults(static_broker=effective_values),
        dynamic_broker=MappingProxyType(of_broker),
        dynamic_cluster_default=MappingProxyType(of_cluster),
        effective_values=MappingProxyType(effective_values),
    )


def merge(*levels: Texts) -> dict[str, str]:
    """Later levels take precedence, also over synonyms: `log.roll.ms` overrides a lower `log.roll.hours`."""
    merged: dict[str, str] = {}
    for level in levels:
        if merged:
            for name in level:
                for synonym in broker_synonyms(name):
                    merged.pop(synonym, None)
        merged |= level
    return merged


def unusable(stored: Texts, *, per_broker: bool) -> Mapping[str, str]:
    """The stored configs that have no effect, and why, for the log."""
    reasons: dict[str, str] = {}
    for name, text in stored.items():
        if not is_dynamic(name):
            reasons[name] = "it cannot change at run time"
        elif name in ONLY_FOR_LISTENERS:
            reasons[name] = "it can change only for a single listener"
        elif not per_broker and needs_broker_id(name):
            reasons[name] = "it can change only for a single broker"
        elif base_name(name) in BROKER_CONFIGS:
            try:
                _setting(base_name(name), text)
            except (InvalidValue, AddressError) as invalid:
                reasons[name] = str(invalid)
    return reasons


def _usable(stored: Texts, *, per_broker: bool) -> dict[str, str]:
    without = unusable(stored, per_broker=per_broker)
    return {name: text for name, text in stored.items() if name not in without}


def _setting(name: str, text: str | None) -> Any:
    definition = BROKER_CONFIGS[name]
    value: ConfigValue = definition.default if text is None else definition.parse(text)
    return parse_ip_overrides(str(value)) if name == "max.connections.per.ip.overrides" else value


_DYNAMIC_SETTINGS = {
    name: field
    for name in supported.BROKER
    if BROKER_CONFIGS[name].is_dynamic and name not in supported.FIXED_AT_START
    if (field := name.replace(".", "_")) in NodeConfig.__dataclass_fields__
}
