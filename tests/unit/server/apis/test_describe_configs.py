"""DescribeConfigs responses, as Apache Kafka 4.3.1 returns them."""

from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.unit.broker.fake_broker import FakeBroker

DESCRIBE_CONFIGS = 32
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, OF_FILE, DEFAULT = 1, 2, 3, 4, 5


def describe(
    broker: FakeBroker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = True,
    documentation: bool = False,
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    response = broker.request(
        DESCRIBE_CONFIGS,
        version,
        resources=[resource],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def one_config(broker: FakeBroker, kind: int, name: str, key: str, **options: Any) -> Any:
    (config,) = describe(broker, kind, name, [key], **options).configs
    assert config.name == key
    return config


def levels(config: Any) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in config.synonyms]


@pytest.fixture
def levelled(tmp_path: Path) -> FakeBroker:
    broker = FakeBroker(tmp_path, {"log.retention.hours": "100", "my.own.key": "hello"})
    broker.add_topic("t", configs={"max.message.bytes": "123"})
    broker.set_configs(BROKER, "", {"log.retention.ms": "5000", "message.max.bytes": "2000000"})
    return broker


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_topic_configs_in_every_version(levelled: FakeBroker, version: int) -> None:
    config = one_config(levelled, TOPIC, "t", "max.message.bytes", version=version)
    assert (config.value, config.config_source, config.read_only, config.is_sensitive) == (
        "123",
        OF_TOPIC,
        False,
        False,
    )
    assert levels(config) == [
        ("max.message.bytes", "123", OF_TOPIC),
        ("message.max.bytes", "2000000", OF_ALL_BROKERS),
        ("message.max.bytes", "1048588", DEFAULT),
    ]
    if version >= 3:
        assert (config.config_type, config.documentation) == (3, None)


def test_topic_config_default_comes_from_the_broker_synonyms(levelled: FakeBroker) -> None:
    config = one_config(levelled, TOPIC, "t", "retention.ms")
    assert (config.value, config.config_source) == ("5000", OF_ALL_BROKERS)
    assert levels(config) == [
        ("log.retention.ms", "5000", OF_ALL_BROKERS),
        ("log.retention.hours", "100", OF_FILE),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_all_configs_of_a_topic(levelled: FakeBroker) -> None:
    configs = {one.name: one.value for one in describe(levelled, TOPIC, "t", synonyms=False).configs}
    assert len(configs) == 33
    assert configs["cleanup.policy"] == "delete"
    assert configs["min.cleanable.dirty.ratio"] == "0.5"
    assert configs == {one.name: one.value for one in describe(levelled, TOPIC, "t", []).configs}


def test_synonyms_and_documentation_only_on_request(levelled: FakeBroker) -> None:
    plain = one_config(levelled, TOPIC, "t", "retention.ms", synonyms=False)
    assert (plain.synonyms, plain.documentation) == ((), None)
    assert one_config(levelled, TOPIC, "t", "retention.ms", documentation=True).documentation


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("gone", ErrorCode.unknown_topic_or_partition, ""),
        ("", ErrorCode.invalid_topic_exception, "Topic name is invalid: the empty string is not allowed"),
        ("..", ErrorCode.invalid_topic_exception, "Topic name is invalid: '..' is not allowed"),
    ],
)
def test_describe_configs_of_unknown_and_invalid_topics(
    broker: FakeBroker, name: str, error: ErrorCode, message: str
) -> None:
    result = describe(broker, TOPIC, name)
    assert (result.error_code, result.error_message, result.configs) == (error, message, ())


def test_describe_broker_configs(levelled: FakeBroker) -> None:
    retention = one_config(levelled, BROKER, "1", "log.retention.ms")
    assert (retention.value, retention.config_source, retention.read_only) == ("5000", OF_ALL_BROKERS, False)
    partitions = one_config(levelled, BROKER, "+01", "num.partitions")
    assert (partitions.value, partitions.config_source, partitions.read_only) == ("1", DEFAULT, True)
    assert len(describe(levelled, BROKER, "1").configs) > 300


def test_passwords_and_unknown_configs_have_no_value(levelled: FakeBroker) -> None:
    own = one_config(levelled, BROKER, "1", "my.own.key")
    assert (own.value, own.is_sensitive, own.config_type, own.read_only) == (None, True, 0, True)
    assert levels(own) == [("my.own.key", None, OF_FILE)]
    password = one_config(levelled, BROKER, "1", "ssl.key.password")
    assert (password.value, password.is_sensitive, password.config_type) == (None, True, 9)


def test_describe_cluster_default_configs(levelled: FakeBroker) -> None:
    configs = describe(levelled, BROKER, "").configs
    assert {one.name: (one.value, one.config_source) for one in configs} == {
        "log.retention.ms": ("5000", OF_ALL_BROKERS),
        "message.max.bytes": ("2000000", OF_ALL_BROKERS),
    }


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (BROKER, "2", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", "Broker id must be an integer, but it is: x"),
        (BROKER, " 1", "Broker id must be an integer, but it is:  1"),
        (BROKER, "99999999999", "Broker id must be an integer, but it is: 99999999999"),
        (BROKER_LOGGER, "", "Broker id must not be empty"),
        (BROKER_LOGGER, "2", "Unexpected broker id, expected 1 but received 2"),
        (BROKER_LOGGER, "x", "Broker id must be an integer, but it is: x"),
        (CLIENT_METRICS, "", "Client metrics subscription name must not be empty"),
        (GROUP, "", "Group name must not be empty"),
    ],
)
def test_invalid_resource_names_are_rejected(broker: FakeBroker, kind: int, name: str, message: str) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (ErrorCode.invalid_request, message, ())


def test_unknown_resource_type_rejects_the_whole_request(levelled: FakeBroker) -> None:
    resources = [
        {"resource_type": kind, "resource_name": "t", "configuration_keys": None} for kind in (TOPIC, 64, BROKER)
    ]
    response = levelled.request(
        DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False, include_documentation=False
    )
    assert [one.error_code for one in response.results] == [ErrorCode.invalid_request] * 3
    assert response.results[0].error_message.startswith("This most likely occurs because of a request being malformed")


def test_describe_loggers(broker: FakeBroker) -> None:
    (root,) = describe(broker, BROKER_LOGGER, "1", ["root"]).configs
    assert root.value in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    assert (root.config_source, root.config_type, root.documentation) == (6, 0, "")


def test_group_config_defaults_come_from_the_broker(broker: FakeBroker) -> None:
    broker.set_configs(GROUP, "g", {"consumer.session.timeout.ms": "46000"})
    config = one_config(broker, GROUP, "g", "consumer.session.timeout.ms")
    assert (config.value, config.config_source) == ("46000", 8)
    assert levels(config) == [
        ("consumer.session.timeout.ms", "46000", 8),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    assert len(describe(broker, GROUP, "other").configs) == 17


def test_describe_client_metrics_configs(broker: FakeBroker) -> None:
    broker.set_configs(CLIENT_METRICS, "sub", {"interval.ms": "100000"})
    configs = {one.name: (one.value, one.config_source) for one in describe(broker, CLIENT_METRICS, "sub").configs}
    assert configs == {"interval.ms": ("100000", 7), "match": ("", DEFAULT), "metrics": ("", DEFAULT)}
