"""The typed and resolved configs of one topic, as the log, the partition and the controller read them.

Values come from the topic's overrides, else from the broker configs that supply its defaults (`synonyms`), else from
Kafka's defaults. This module does not know where they are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDefinition
from odradek.config.synonyms import TOPIC_SYNONYMS
from odradek.config.values import ConfigValue, InvalidValue

Texts = Mapping[str, str]
NOTHING: Texts = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Fields are named after their config, with underscores for dots."""

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: frozenset[str]
    index_interval_bytes: int
    leader_replication_throttled_replicas: frozenset[str]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    compact: bool
    delete: bool

    @classmethod
    def resolve(
        cls,
        topic_overrides: Texts = NOTHING,
        dynamic_broker: Texts = NOTHING,
        dynamic_cluster_default: Texts = NOTHING,
        static_broker: Texts = NOTHING,
    ) -> Self:
        """The levels in order of precedence. Without arguments: Kafka's defaults."""
        defaults = cls.broker_defaults(dynamic_broker, dynamic_cluster_default, static_broker)
        return defaults.with_overrides(topic_overrides)

    @classmethod
    def broker_defaults(
        cls,
        dynamic_broker: Texts = NOTHING,
        dynamic_cluster_default: Texts = NOTHING,
        static_broker: Texts = NOTHING,
    ) -> Self:
        """The configs of a topic without overrides. Expensive: keep the result and use `with_overrides`."""
        levels = (dynamic_broker, dynamic_cluster_default, static_broker)
        values = {name: broker_default(definition, levels) for name, definition in TOPIC_CONFIGS.items()}
        return cls(**_fields_of(values))

    def with_overrides(self, topic_overrides: Texts) -> Self:
        """These defaults with a topic's overrides. Invalid overrides are skipped."""
        values: dict[str, ConfigValue] = {}
        for name, text in topic_overrides.items():
            if definition := TOPIC_CONFIGS.get(name):
                try:
                    values[name] = definition.parse(text)
                except InvalidValue:
                    continue
        return replace(self, **_fields_of(values)) if values else self

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def max_segment_ms(self) -> int:
        """A compacted topic rolls early enough to respect max.compaction.lag.ms."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def broker_default(definition: ConfigDefinition, levels: tuple[Texts, ...]) -> ConfigValue:
    """The value of one topic config for topics that do not override it. Invalid texts are skipped."""
    synonyms = TOPIC_SYNONYMS.get(definition.name, ())
    for level in levels:
        for broker_config, convert in synonyms:
            text = level.get(broker_config)
            if text is None:
                continue
            try:
                return convert(BROKER_CONFIGS[broker_config].parse(text))
            except InvalidValue:
                continue
    return definition.default


def _fields_of(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    """The fields by name; `cleanup.policy` sets several."""
    arguments: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    if "cleanup.policy" in values:
        policy = frozenset(arguments["cleanup_policy"])
        arguments |= {"cleanup_policy": policy, "compact": "compact" in policy, "delete": "delete" in policy}
    for field in ("follower_replication_throttled_replicas", "leader_replication_throttled_replicas"):
        if field in arguments:
            arguments[field] = frozenset(text.strip() for text in arguments[field])
    # Kafka's tests and ours need segments below the public minimum of 1 MiB.
    internal_segment_bytes = arguments.pop("internal_segment_bytes", None)
    if internal_segment_bytes is not None:
        arguments["segment_bytes"] = internal_segment_bytes
    return arguments
