"""The coordinator's defaults are those of the configuration."""

from odradek.config.node_config import NodeConfig
from odradek.core.groups.settings import GroupSettings

PROPERTIES = """
node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
log.dirs=/somewhere
"""


def test_defaults_are_kafkas() -> None:
    assert GroupSettings.of(NodeConfig.load(PROPERTIES, "server.properties")) == GroupSettings()


def test_configured_values_are_used() -> None:
    config = NodeConfig.load(PROPERTIES + "offsets.retention.minutes=5\ngroup.max.size=7\n", "server.properties")
    settings = GroupSettings.of(config)
    assert (settings.offsets_retention_ms, settings.classic_group_max_size) == (300_000, 7)
