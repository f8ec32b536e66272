"""Every config of Apache Kafka 4.3.1: name, type, default, range and update mode.

The table is `kafka_configs.json`, one config per line; the configs that only this project has are below. `supported`
defines which configs have an effect.
"""

import json
import os
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from odradek.config.ranges import check_for
from odradek.config.values import ConfigType, ConfigValue, parse_value


class UpdateMode(Enum):
    """When and where a config may change."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    DYNAMIC_ONLY = "dynamic-only"
    TOPIC = "topic"
    INTERNAL = "internal"


class ConfigDefinition(NamedTuple):
    name: str
    type: ConfigType
    default_text: str | None
    importance: str
    valid: str
    update_mode: UpdateMode

    @property
    def is_required(self) -> bool:
        return self.default_text == "<required>"

    @property
    def is_internal(self) -> bool:
        return self.update_mode is UpdateMode.INTERNAL

    @property
    def is_hidden_until_set(self) -> bool:
        """Whether DescribeConfigs omits it until it is set."""
        return self.update_mode in (UpdateMode.INTERNAL, UpdateMode.DYNAMIC_ONLY) or self.name in ONLY_IN_ODRADEK

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        """Whether AlterConfigs on a broker may change it."""
        return self.update_mode in (UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE, UpdateMode.DYNAMIC_ONLY)

    @property
    def default(self) -> ConfigValue:
        if self.default_text is None or self.is_required:
            return None
        return parse_value(self.name, self.type, self.default_text)

    def parse(self, text: str) -> ConfigValue:
        """Raises InvalidValue when the text is of another type or out of range."""
        value = parse_value(self.name, self.type, text)
        return check_for(self.valid)(self.name, value) if self.valid else value


ONLY_IN_ODRADEK = {
    "audit.log.file": ["STRING", "", "MEDIUM", "", "internal"],
    "audit.log.format": ["STRING", "json", "LOW", "[json, ocsf]", "internal"],
    "audit.log.max.bytes": ["LONG", "104857600", "LOW", "[4096,...]", "internal"],
    "audit.log.max.files": ["INT", "10", "LOW", "[1,...,1000]", "internal"],
    "broker.disconnect.grace.ms": ["INT", "300", "MEDIUM", "[0,...]", "internal"],
    "hot.keys.enable": ["BOOLEAN", "true", "LOW", "", "internal"],
    "http.address": ["STRING", "", "MEDIUM", "", "internal"],
    "http.security.protocol": ["STRING", "PLAINTEXT", "MEDIUM", "[PLAINTEXT, SSL]", "internal"],
    "record.validation": ["STRING", "header", "MEDIUM", "[header, full]", "cluster-wide"],
    "sasl.oauthbearer.unsecured.tokens.enable": ["BOOLEAN", "false", "LOW", "", "internal"],
}
"""Configs that Apache Kafka does not have. Kafka's tools show them once they are set."""

OF_AUTHORIZER = {
    "allow.everyone.if.no.acl.found": ["BOOLEAN", "false", "MEDIUM", "", "internal"],
    "super.users": ["STRING", "", "MEDIUM", "", "internal"],
}
"""Configs of Kafka's authorizer, which the broker itself does not define: its tools show them as unknown, without a
value."""


def _load() -> tuple[Mapping[str, ConfigDefinition], Mapping[str, ConfigDefinition]]:
    with open(os.path.join(os.path.dirname(__file__), "kafka_configs.json"), "rb") as file:
        tables = json.load(file)
    types, modes = {kind.name: kind for kind in ConfigType}, {mode.value: mode for mode in UpdateMode}

    def definitions(rows: dict[str, list[str]]) -> Mapping[str, ConfigDefinition]:
        return MappingProxyType(
            {
                name: ConfigDefinition(name, types[kind], default, importance, valid, modes[mode])
                for name, (kind, default, importance, valid, mode) in rows.items()
            }
        )

    return definitions(tables["broker"] | ONLY_IN_ODRADEK | OF_AUTHORIZER), definitions(tables["topic"])


BROKER_CONFIGS, TOPIC_CONFIGS = _load()
