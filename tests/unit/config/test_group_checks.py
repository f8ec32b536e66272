"""Contradicting consumer group configs of the broker are rejected at start, as by Apache Kafka."""

import pytest

from odradek.config.node_config import NodeConfig
from odradek.config.problems import ConfigErrors

BASE = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("group.consumer.heartbeat.interval.ms=5000", None),
        ("group.consumer.assignors=range", None),
        (
            "group.consumer.heartbeat.interval.ms=4999",
            "group.consumer.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            "group.consumer.max.session.timeout.ms=45000\ngroup.consumer.session.timeout.ms=45001",
            "group.consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            "group.consumer.max.session.timeout.ms=40000",
            "group.consumer.max.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            "group.consumer.min.session.timeout.ms=1000\ngroup.consumer.session.timeout.ms=5000",
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            "group.consumer.assignors=org.mine.Assignor",
            "group.consumer.assignors: cannot load the Java class org.mine.Assignor; use uniform or range",
        ),
    ],
)
def test_contradicting_group_configs_are_rejected(lines: str, expected: str | None) -> None:
    if expected is None:
        NodeConfig.load(BASE + lines, "server.properties")
        return
    with pytest.raises(ConfigErrors) as caught:
        NodeConfig.load(BASE + lines, "server.properties")
    (message,) = caught.value.errors
    assert message.endswith(expected)
