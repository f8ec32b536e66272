"""Configs that a group may have of its own; those of Kafka's words are compared over the wire."""

import pytest

from odradek.base.errors import KafkaError
from odradek.config.group_config import check_group_configs
from odradek.config.node_config import NodeConfig

PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=100
"""


@pytest.fixture(scope="module")
def config() -> NodeConfig:
    return NodeConfig.load(PROPERTIES, "server.properties")


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"consumer.session.timeout.ms": "6000"},
        {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "999"},
        {"consumer.assignment.interval.ms": "0"},
    ],
)
def test_valid_group_configs_are_accepted(config: NodeConfig, configs: dict[str, str]) -> None:
    check_group_configs(configs, config)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"consumer.session.timeout.ms": "999"}, "greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({"consumer.session.timeout.ms": "5000"}, "must be greater than consumer.heartbeat.interval.ms"),
        ({"consumer.session.timeout.ms": "soon"}, "Not a number of type INT"),
        ({"share.session.timeout.ms": "50000"}, "has no effect"),
        ({"consumer.nothing": "1"}, "Unknown group config name: consumer.nothing"),
    ],
)
def test_invalid_group_configs_are_rejected(config: NodeConfig, configs: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        check_group_configs(configs, config)
