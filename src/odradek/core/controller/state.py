"""What all parts of the controller share: the image, its index, and the node's configuration.

The image is ahead of the committed log: each command is based on the commands before it, committed or not. Only
`Controller` changes it: commands read it and return records.
"""

from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Random
from odradek.config.dynamic import overlay
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import Texts, TopicConfig
from odradek.core.controller.index import ClusterIndex
from odradek.core.metadata.directories import LOST, MIGRATING, UNASSIGNED
from odradek.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, IV_3_7_DIRECTORIES
from odradek.core.metadata.image import BrokerImage, ClusterImage


class ControllerState:
    def __init__(self, config: NodeConfig, cluster_id: str, random: Random, image: ClusterImage) -> None:
        self.cluster_id = cluster_id
        self.random = random
        self.image = image
        self.index = ClusterIndex(image)
        self._config = config
        self._seen_levels: tuple[Texts, Texts] = (config.dynamic_broker, config.dynamic_cluster_default)

    @property
    def metadata_version(self) -> int:
        return self.image.features.metadata_version

    @property
    def is_elr_enabled(self) -> bool:
        return self.image.features.level(ELIGIBLE_LEADER_REPLICAS) >= 1

    @property
    def supports_directories(self) -> bool:
        return self.metadata_version >= IV_3_7_DIRECTORIES

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.stale_broker_epoch, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.stale_broker_epoch,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def has_online_directory(self, broker_id: int, directory: UUID | None) -> bool:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return False
        # The common case first: comparing UUIDs is slow.
        if directory in broker.directories:
            return True
        return directory in (UNASSIGNED, MIGRATING) or (not broker.directories and directory != LOST)

    def default_directory(self, broker_id: int) -> UUID | None:
        """The directory of a new replica: known at once if the broker has only one."""
        if not self.supports_directories:
            return MIGRATING
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        if not broker.directories:
            return MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED

    @property
    def config(self) -> NodeConfig:
        """This node's configuration with its dynamic configs."""
        levels = self.image.broker_config(self._config.node_id), self.image.default_broker_config()
        if levels[0] is not self._seen_levels[0] or levels[1] is not self._seen_levels[1]:
            self._config = overlay(self._config, *levels)
            self._seen_levels = levels
        return self._config

    def topic_config(self, topic_name: str) -> TopicConfig:
        return self.config.topic_defaults.with_overrides(self.image.topic_config(topic_name))
