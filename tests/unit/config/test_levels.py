"""DescribeConfigs, compared with Apache Kafka 4.3.1 for the same file and changes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from odradek.config.dynamic import overlay
from odradek.config.levels import (
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    validate,
)
from odradek.config.node_config import NodeConfig

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded" / "described.json").read_text())


@pytest.fixture(scope="module")
def config() -> NodeConfig:
    static = NodeConfig.load(RECORDED["server.properties"], "server.properties")
    return overlay(static, RECORDED["set on broker 1"], RECORDED["set on all brokers"])


def rows(described: Iterable[DescribedConfig]) -> dict[str, list[Any]]:
    return {
        one.name: [
            one.value,
            one.source,
            one.type,
            one.sensitive,
            one.read_only,
            [list(level) for level in one.synonyms],
        ]
        for one in described
    }


def test_describe_broker(config: NodeConfig) -> None:
    assert rows(describe_broker(config)) == RECORDED["broker 1"]


def test_describe_all_brokers_default(config: NodeConfig) -> None:
    assert rows(describe_cluster_default(config)) == RECORDED["all brokers"]


def test_describe_topic_with_configs(config: NodeConfig) -> None:
    assert rows(describe_topic(config, RECORDED["set on topic t"])) == RECORDED["topic t"]


def test_describe_topic_without_configs(config: NodeConfig) -> None:
    assert rows(describe_topic(config, {})) == RECORDED["topic without configs"]


def test_only_requested_configs_are_described(config: NodeConfig) -> None:
    assert rows(describe_broker(config, {"log.roll.hours", "no.such.config"})).keys() == {"log.roll.hours"}
    assert rows(describe_cluster_default(config, {"log.segment.bytes", "log.roll.hours"})).keys() == {
        "log.segment.bytes"
    }
    assert rows(describe_topic(config, {}, {"retention.ms"})).keys() == {"retention.ms"}
    assert describe_topic(config, {}, ()) == []


def test_internal_configs_show_only_once_set(config: NodeConfig) -> None:
    name = "log.initial.task.delay.ms"
    assert describe_broker(config, {name}) == []
    static = NodeConfig.load(RECORDED["server.properties"] + f"{name}=5\n", "server.properties")
    (described,) = describe_broker(static, {name})
    assert (described.value, described.source) == ("5", ConfigSource.STATIC_BROKER_CONFIG)
    assert [level.value for level in described.synonyms] == ["5", "30000"]


def test_passwords_and_unknown_values_are_never_shown(config: NodeConfig) -> None:
    for name in ("ssl.keystore.password", "unknown.thing", "nosuch"):
        (described,) = describe_broker(config, {name})
        assert described.sensitive
        assert described.value is None
        assert all(level.value is None for level in described.synonyms)


def test_invalid_stored_value_is_shown_unchanged(config: NodeConfig) -> None:
    (described,) = describe_topic(config, {"retention.ms": "soon"}, {"retention.ms"})
    assert (described.value, described.source) == ("soon", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_supported_configs_are_documented(config: NodeConfig) -> None:
    (described,) = describe_topic(config, {}, {"flush.messages"})
    assert described.documentation
    assert "synced" in described.documentation


def test_single_effective_values() -> None:
    assert validate("topic", "retention.ms", "5") is None
    assert validate("topic", "nosuch", "5") == "Unknown topic config name: nosuch"
    assert validate("broker", "nosuch", "5") is None
    assert validate("broker", "num.partitions", "0") == (
        "Invalid value 0 for configuration num.partitions: Value must be at least 1"
    )
