"""AlterConfigs, compared with the recorded results of Apache Kafka 4.3.1."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import (
    Change,
    Operation,
    alter_broker_configs,
    alter_topic_configs,
    check_broker_configs,
    check_topic_configs,
)
from odradek.config.dynamic import overlay
from odradek.config.node_config import NodeConfig

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded" / "altered.json").read_text())
CONFIG = NodeConfig.load(RECORDED["server.properties"], "server.properties")


def alter(resource: str, changes: list[Change]) -> tuple[str, str | None]:
    try:
        if resource == "topic":
            check_topic_configs(alter_topic_configs({}, changes), CONFIG.topic_defaults)
        else:
            check_broker_configs(CONFIG, alter_broker_configs({}, changes), per_broker=resource == "one broker")
    except KafkaError as error:
        return error.code.name, error.message
    return "none", None


@pytest.mark.parametrize(
    ("resource", "changes", "code", "message"), RECORDED["answers"], ids=lambda value: str(value)[:60]
)
def test_config_change_results_are_those_of_kafka(
    resource: str, changes: list[list[Any]], code: str, message: str | None
) -> None:
    typed = [Change(name, Operation(operation), value) for name, operation, value in changes]
    assert alter(resource, typed) == (code, message)


def rejection(configs: dict[str, str], **arguments: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        check_broker_configs(CONFIG, configs, per_broker=True, **arguments)
    return caught.value


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("num.io.threads", "5", "run more nodes to use more cores"),
        ("num.replica.fetchers", "2", "not supported yet"),
        ("listeners", "PLAINTEXT://:1,CONTROLLER://:2", "restart the node"),
        ("listener.name.plaintext.max.connections", "5", "single listener"),
    ],
)
def test_changes_without_effect_are_rejected_unlike_kafka(name: str, value: str, reason: str) -> None:
    error = rejection({name: value})
    assert error.code is ErrorCode.invalid_config
    assert error.message
    assert name in error.message
    assert reason in error.message


def test_invalid_stored_config_does_not_block_changes() -> None:
    stored = {"num.io.threads": "4", "max.connections": "5"}
    check_broker_configs(CONFIG, stored, per_broker=True, changed={"max.connections"})
    rejection(stored, changed={"num.io.threads"})


def test_thread_counts_are_checked_against_effective_values() -> None:
    config = overlay(CONFIG, {}, {"background.threads": "30"})
    check_broker_configs(config, {"background.threads": "60"}, per_broker=True)
    with pytest.raises(KafkaError, match="at least half the current value 30"):
        check_broker_configs(config, {"background.threads": "14"}, per_broker=True)


def test_cluster_default_is_overridden_by_broker_config() -> None:
    config = overlay(CONFIG, {"max.connections.per.ip.overrides": "a:1"}, {})
    check_broker_configs(config, {"max.connections.per.ip": "0"}, per_broker=False)


def test_range_errors_have_the_text_of_kafka() -> None:
    assert (
        rejection({"log.cleaner.threads": "0"}).message == "requirement failed: log.cleaner.threads must be at least 1"
    )
    overrides = rejection({"max.connections.per.ip.overrides": "a:b"})
    assert overrides.code is ErrorCode.invalid_request
    assert "'a:b' is not of the form ADDRESS:LIMIT" in str(overrides)


def test_topic_config_is_checked_with_broker_defaults() -> None:
    defaults = overlay(CONFIG, {"log.cleaner.max.compaction.lag.ms": "5"}, {}).topic_defaults
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms \(6\) > max\.compaction\.lag\.ms \(5\)"):
        check_topic_configs({"min.compaction.lag.ms": "6"}, defaults)


def test_append_and_subtract_start_from_the_stored_value_or_default() -> None:
    append = [Change("cleanup.policy", Operation.APPEND, "compact,delete")]
    assert alter_topic_configs({}, append) == {"cleanup.policy": "delete,compact"}
    assert alter_topic_configs({"cleanup.policy": "compact"}, append) == {"cleanup.policy": "compact,delete"}
    subtract = [Change("cleanup.policy", Operation.SUBTRACT, "delete")]
    assert alter_topic_configs({"cleanup.policy": "compact,delete"}, subtract) == {"cleanup.policy": "compact"}
    assert alter_topic_configs({}, subtract) == {"cleanup.policy": ""}
    throttled = "leader.replication.throttled.replicas"
    assert alter_topic_configs({}, [Change(throttled, Operation.APPEND, "0:1")]) == {throttled: "0:1"}


def test_stored_configs_are_not_modified() -> None:
    stored = {"retention.ms": "5"}
    assert alter_topic_configs(stored, [Change("retention.ms", Operation.DELETE, None)]) == {}
    assert stored == {"retention.ms": "5"}
