"""`max.connection.creation.rate` of the node and of one listener."""

from odradek.config.node_config import NodeConfig
from odradek.server.listeners import _connection_rate as connection_rate

PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,INTERNAL://:9094,CONTROLLER://:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
log.dirs=/nowhere
"""


def test_listener_has_the_rate_of_the_node_by_default() -> None:
    config = NodeConfig.load(PROPERTIES + "max.connection.creation.rate=7\n", "test")
    assert connection_rate(config, "PLAINTEXT") == connection_rate(config, "INTERNAL") == 7


def test_listener_prefix_takes_precedence() -> None:
    text = PROPERTIES + "max.connection.creation.rate=7\nlistener.name.internal.max.connection.creation.rate=100\n"
    config = NodeConfig.load(text, "test")
    assert (connection_rate(config, "PLAINTEXT"), connection_rate(config, "INTERNAL")) == (7, 100)
