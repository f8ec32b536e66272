"""The table of Kafka's configs: complete, readable, and in agreement with itself."""

import pytest

from odradek.config import supported
from odradek.config.definitions import BROKER_CONFIGS, OF_AUTHORIZER, TOPIC_CONFIGS, ConfigDefinition, UpdateMode
from odradek.config.ranges import check_for
from odradek.config.synonyms import TOPIC_SYNONYMS
from odradek.config.values import ConfigType, InvalidValue, format_value

EVERYTHING = [*BROKER_CONFIGS.values(), *TOPIC_CONFIGS.values()]


def test_every_config_of_kafka_4_3_1_is_defined() -> None:
    only_at_run_time = [one for one in BROKER_CONFIGS.values() if one.update_mode is UpdateMode.DYNAMIC_ONLY]
    own, dynamic_own = 10 + len(OF_AUTHORIZER), 1
    assert len(BROKER_CONFIGS) - len(only_at_run_time) == 360 + own
    assert len(only_at_run_time) == 3
    assert len(TOPIC_CONFIGS) == 34
    assert sum(one.is_dynamic for one in BROKER_CONFIGS.values()) == 102 + dynamic_own


@pytest.mark.parametrize("definition", EVERYTHING, ids=lambda one: one.name)
def test_every_default_is_valid_and_round_trips(definition: ConfigDefinition) -> None:
    text = definition.default_text
    if text is None or definition.is_required:
        assert definition.default is None
    else:
        assert definition.parse(text) == definition.default
        assert format_value(definition.default) == text


def test_every_range_is_parsed() -> None:
    taking_anything = {one.valid for one in EVERYTHING if one.valid and check_for(one.valid) is check_for("")}
    # The first is no restriction; addresses of controllers are looked at where they are taken apart.
    assert taking_anything == {"non-null string", "non-empty list"}


def rejection(name: str, text: str) -> str:
    with pytest.raises(InvalidValue) as caught:
        BROKER_CONFIGS[name].parse(text)
    return str(caught.value)


def test_range_errors_are_those_of_kafka() -> None:
    prefix = "Invalid value"
    assert rejection("num.partitions", "0") == f"{prefix} 0 for configuration num.partitions: Value must be at least 1"
    assert rejection("compression.zstd.level", "23").endswith("Value must be no more than 22")
    assert rejection("compression.gzip.level", "0").endswith("Value must be between 1 and 9 or equal to -1")
    assert rejection("log.cleaner.min.cleanable.ratio", "3").startswith(f"{prefix} 3.0 for")
    assert rejection("ssl.client.auth", "Required").endswith("String must be one of: required, requested, none")
    assert rejection("group.consumer.migration.policy", "foo").endswith(
        "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"
    )
    assert rejection("remote.log.storage.manager.class.name", "").endswith("String must be non-empty")
    assert rejection("process.roles", "") == (
        "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"
    )
    assert rejection("listeners", "") == (
        "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"
    )
    assert rejection("listeners", "a,,b") == "Configuration 'listeners' values must not be empty."
    assert rejection("process.roles", "foo,broker").endswith("String must be one of: broker, controller")


def test_ranges_accept_what_kafka_accepts() -> None:
    assert BROKER_CONFIGS["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"
    assert BROKER_CONFIGS["process.roles"].parse("broker,broker") == ("broker",)
    assert BROKER_CONFIGS["log.cleanup.policy"].parse("") == ()
    assert BROKER_CONFIGS["compression.gzip.level"].parse("-1") == -1
    assert BROKER_CONFIGS["authorizer.class.name"].parse("") == ""
    assert TOPIC_CONFIGS["min.cleanable.dirty.ratio"].parse("NaN") != 0
    assert TOPIC_CONFIGS["leader.replication.throttled.replicas"].parse("0:1,") == ("0:1", "")


def test_passwords_are_never_shown() -> None:
    assert {one.name for one in EVERYTHING if one.is_sensitive} >= {"ssl.key.password", "sasl.jaas.config"}
    assert all(one.type is ConfigType.PASSWORD for one in EVERYTHING if one.is_sensitive)


def test_texts_about_configs_name_existing_configs() -> None:
    for table in (supported.BROKER, supported.WITHOUT_EFFECT, supported.REJECTED, supported.FIXED_AT_START):
        assert table.keys() <= BROKER_CONFIGS.keys()
    assert supported.TOPIC.keys() <= TOPIC_CONFIGS.keys()
    assert supported.RESERVED.keys() <= BROKER_CONFIGS.keys() | TOPIC_CONFIGS.keys()


def test_every_topic_config_is_supported_or_reserved() -> None:
    assert supported.TOPIC.keys() | supported.RESERVED.keys() >= TOPIC_CONFIGS.keys()


def test_every_broker_config_has_one_status() -> None:
    tables = (supported.BROKER, supported.RESERVED, supported.WITHOUT_EFFECT, supported.REJECTED)
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    assert supported.FIXED_AT_START.keys() <= supported.BROKER.keys()


def test_topic_config_defaults_come_from_supported_broker_configs() -> None:
    for topic_config, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            assert synonym.broker_config in BROKER_CONFIGS
            is_supported = topic_config in supported.TOPIC
            assert (synonym.broker_config in supported.BROKER) is is_supported, topic_config
