"""Configs changed at run time, laid over a node's file."""

from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.dynamic import is_dynamic, merge, needs_broker_id, overlay, unusable
from odradek.config.node_config import NodeConfig

STATIC = NodeConfig.load(
    """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
max.connections=100
log.retention.hours=5
message.max.bytes=1000
""",
    "server.properties",
)


def test_dynamic_broker_config_overrides_cluster_default_and_file() -> None:
    config = overlay(STATIC, {"max.connections": "1"}, {"max.connections": "2", "background.threads": "3"})
    assert config.max_connections == 1
    assert config.background_threads == 3
    assert config.effective("max.connections") == 1
    assert STATIC.max_connections == 100


def test_every_dynamic_overlay_starts_from_the_file() -> None:
    changed = overlay(STATIC, {"max.connections": "1"}, {})
    assert overlay(changed, {}, {}).max_connections == 100


def test_topics_inherit_dynamic_broker_configs() -> None:
    config = overlay(STATIC, {"message.max.bytes": "7"}, {"message.max.bytes": "8", "log.cleanup.policy": "compact"})
    assert config.topic_defaults.max_message_bytes == 7
    assert config.topic_defaults.compact
    assert config.topic_defaults.retention_ms == 5 * 3_600_000


def test_dynamic_config_overrides_its_synonyms_in_the_file() -> None:
    config = overlay(STATIC, {}, {"log.retention.ms": "360000"})
    assert config.topic_defaults.retention_ms == 360000
    assert "log.retention.hours" not in config.effective_values
    assert merge({"log.roll.hours": "1", "a": "b"}, {"log.roll.ms": "5"}) == {"log.roll.ms": "5", "a": "b"}


def test_max_connections_per_ip_overrides_are_dynamic() -> None:
    config = overlay(STATIC, {"max.connections.per.ip.overrides": "127.0.0.1:3"}, {})
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 3}


def test_invalid_dynamic_configs_are_skipped_with_a_warning() -> None:
    stored = {
        "num.partitions": "7",
        "max.connections": "many",
        "ssl.keystore.type": "JKS",
        "listeners": "PLAINTEXT://:1",
        "listener.name.plaintext.max.connections": "x",
        "max.connections.per.ip.overrides": "a:b",
        "background.threads": "5",
        "made.up": "1",
    }
    reasons = unusable(stored, per_broker=False)
    assert reasons.keys() == stored.keys() - {"background.threads", "made.up"}
    assert reasons["num.partitions"] == "it cannot change at run time"
    config = overlay(STATIC, {}, stored)
    assert config.num_partitions == 1
    assert config.max_connections == 100
    assert config.background_threads == 5
    assert dict(config.dynamic_cluster_default) == {"background.threads": "5", "made.up": "1"}


def test_configs_fixed_at_start_are_not_dynamic() -> None:
    config = overlay(STATIC, {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"}, {})
    assert config.listeners == STATIC.listeners


def test_dynamic_configs_and_their_levels() -> None:
    assert is_dynamic("background.threads")
    assert is_dynamic("leader.replication.throttled.rate")
    assert is_dynamic("of.a.plugin")
    assert not is_dynamic("num.partitions")
    assert not is_dynamic("log.initial.task.delay.ms")
    assert needs_broker_id("listeners")
    assert needs_broker_id("listener.name.plaintext.ssl.keystore.type")
    assert needs_broker_id("listener.name.plaintext.sasl.plain.sasl.jaas.config")
    assert not needs_broker_id("listener.name.plaintext.max.connections")
    assert not needs_broker_id("message.max.bytes")
    assert sum(needs_broker_id(name) for name in BROKER_CONFIGS) == 37
