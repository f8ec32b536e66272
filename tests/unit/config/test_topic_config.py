"""Topic configs resolved from their levels."""

from odradek.config.definitions import TOPIC_CONFIGS
from odradek.config.topic_config import TopicConfig

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def test_kafkas_defaults_when_nothing_is_set() -> None:
    config = TopicConfig.resolve()
    assert config.retention_ms == 7 * DAY_MS
    assert config.segment_bytes == 1 << 30
    assert config.segment_ms == 7 * DAY_MS
    assert config.max_message_bytes == 1048588
    assert config.cleanup_policy == {"delete"}
    assert config.delete
    assert not config.compact
    assert config.compression_type == "producer"
    assert config.flush_messages == config.flush_ms == (1 << 63) - 1
    assert config.message_timestamp_type == "CreateTime"
    assert not config.log_append_time
    assert config.min_insync_replicas == 1


def test_every_topic_config_has_a_field() -> None:
    names = {name.replace(".", "_") for name in TOPIC_CONFIGS} - {"internal_segment_bytes"}
    assert names == set(TopicConfig.__dataclass_fields__) - {"compact", "delete"}


def test_each_level_wins_over_those_below_it() -> None:
    static = {"message.max.bytes": "1"}
    cluster = {"message.max.bytes": "2"}
    broker = {"message.max.bytes": "3"}
    topic = {"max.message.bytes": "4"}
    assert TopicConfig.resolve({}, {}, {}, static).max_message_bytes == 1
    assert TopicConfig.resolve({}, {}, cluster, static).max_message_bytes == 2
    assert TopicConfig.resolve({}, broker, cluster, static).max_message_bytes == 3
    assert TopicConfig.resolve(topic, broker, cluster, static).max_message_bytes == 4


def test_the_finest_unit_of_time_wins_within_a_level() -> None:
    assert TopicConfig.resolve(static_broker={"log.retention.hours": "5"}).retention_ms == 5 * HOUR_MS
    both = {"log.retention.hours": "5", "log.retention.minutes": "7"}
    assert TopicConfig.resolve(static_broker=both).retention_ms == 7 * 60_000
    assert TopicConfig.resolve(static_broker=both | {"log.retention.ms": "9"}).retention_ms == 9
    assert TopicConfig.resolve(static_broker={"log.roll.hours": "2"}).segment_ms == 2 * HOUR_MS
    assert TopicConfig.resolve(static_broker={"log.roll.jitter.hours": "2"}).segment_jitter_ms == 2 * HOUR_MS


def test_a_level_wins_over_a_finer_unit_below_it() -> None:
    config = TopicConfig.resolve(dynamic_broker={"log.retention.hours": "1"}, static_broker={"log.retention.ms": "5"})
    assert config.retention_ms == HOUR_MS


def test_negative_broker_retention_is_unlimited() -> None:
    for given in ({"log.retention.ms": "-7"}, {"log.retention.minutes": "-1"}, {"log.retention.hours": "-1"}):
        assert TopicConfig.resolve(static_broker=given).retention_ms == -1


def test_flush_ms_falls_back_to_the_schedulers_interval() -> None:
    assert TopicConfig.resolve(static_broker={"log.flush.scheduler.interval.ms": "5"}).flush_ms == 5
    both = {"log.flush.scheduler.interval.ms": "5", "log.flush.interval.ms": "6"}
    assert TopicConfig.resolve(static_broker=both).flush_ms == 6


def test_parse_cleanup_policies() -> None:
    both = TopicConfig.resolve({"cleanup.policy": "compact,delete"})
    assert (both.compact, both.delete) == (True, True)
    compact = TopicConfig.resolve({"cleanup.policy": "compact"})
    assert (compact.compact, compact.delete) == (True, False)
    neither = TopicConfig.resolve({"cleanup.policy": ""})
    assert (neither.compact, neither.delete) == (False, False)


def test_a_compacted_topic_rolls_within_its_compaction_lag() -> None:
    lag = {"max.compaction.lag.ms": "1000"}
    assert TopicConfig.resolve(lag | {"cleanup.policy": "compact"}).max_segment_ms == 1000
    assert TopicConfig.resolve(lag).max_segment_ms == 7 * DAY_MS


def test_segments_can_be_small_under_the_internal_name_only() -> None:
    assert TopicConfig.resolve({"internal.segment.bytes": "70000"}).segment_bytes == 70000
    given = {"internal.segment.bytes": "70000", "segment.bytes": "2000000"}
    assert TopicConfig.resolve(given).segment_bytes == 70000


def test_invalid_stored_value_falls_back_to_the_next_level() -> None:
    config = TopicConfig.resolve(
        {"retention.ms": "soon", "no.such.config": "1"},
        {"log.retention.ms": "later"},
        {"log.retention.ms": "360000"},
    )
    assert config.retention_ms == 360000


def test_a_topic_without_configs_shares_its_brokers_defaults() -> None:
    defaults = TopicConfig.broker_defaults()
    assert defaults.with_overrides({}) is defaults
    assert defaults.with_overrides({"retention.ms": "5"}).retention_ms == 5
    assert defaults.retention_ms == 7 * DAY_MS
