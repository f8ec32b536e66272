"""A controller under test: records are replayed as a quorum would, and the records of a result can be looked at."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar
from uuid import UUID

from odradek.base.errors import KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.controller.activation import first_records
from odradek.core.controller.commands import (
    DEFAULT,
    BrokerHeartbeatReply,
    ControllerResult,
    DeadProcess,
    Heartbeat,
    IsrChange,
    NewTopic,
    Registration,
    TopicCreated,
)
from odradek.core.controller.controller import Controller
from odradek.core.metadata.features import SUPPORTED_FEATURES, default_levels
from odradek.core.metadata.image import RECOVERED, ClusterImage, PartitionImage
from odradek.core.metadata.records import Endpoint, FeatureLevelRecord, MetadataRecord, SupportedFeature

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
T = TypeVar("T")

PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
log.dirs=/nowhere
"""


def directory_of(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=1000 * (broker_id + 1) + number)


class Cluster:
    def __init__(self, brokers: int = 1, metadata_version: int = 30, **settings: str) -> None:
        text = PROPERTIES + "".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items())
        self.controller = Controller(NodeConfig.load(text, "test"), CLUSTER_ID, Random(7))
        self.now = 100.0
        levels = default_levels(metadata_version)
        levels.pop("kraft.version", None)
        bootstrap = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
        self.replay(first_records(bootstrap, 1))
        for broker_id in range(1, brokers + 1):
            self.add_broker(broker_id)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def replay(self, records: tuple[MetadataRecord, ...]) -> None:
        self.controller.replay(records, offset=self.image.offset + len(records), epoch=1, timestamp_ms=0)

    def take(self, result: ControllerResult[T]) -> T:
        self.replay(result.records)
        return result.response

    def add_broker(self, broker_id: int, rack: str | None = None) -> None:
        self.register(broker_id, rack=rack)
        self.beat(broker_id)

    def registration(self, broker_id: int, incarnation: int = 1, **others: object) -> Registration:
        values: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=incarnation),
            "endpoints": (Endpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0),),
            "features": tuple(
                SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ),
            "rack": None,
            "is_migrating_zk_broker": False,
            "directories": (directory_of(broker_id),),
            "previous_broker_epoch": -1,
            "detects_unclean_shutdown": True,
            "dead_process": None,
        }
        return Registration(**(values | others))  # type: ignore[arg-type]

    def restart(self, broker_id: int, incarnation: int = 2, **others: object) -> int:
        """The registered process is dead, and another one registers."""
        dead = DeadProcess(self.image.brokers[broker_id].epoch, self.now)
        return self.register(broker_id, incarnation, dead_process=dead, **others)

    def register(self, broker_id: int, incarnation: int = 1, **others: object) -> int:
        return self.take(self.controller.register_broker(self.registration(broker_id, incarnation, **others), self.now))

    def beat(self, broker_id: int, **wishes: object) -> BrokerHeartbeatReply:
        values: dict[str, object] = {
            "broker_id": broker_id,
            "broker_epoch": self.image.brokers[broker_id].epoch,
            "metadata_offset": self.image.offset,
            "want_fence": False,
            "want_shutdown": False,
            "offline_directories": (),
            "cordoned_directories": None,
        }
        return self.take(self.controller.heartbeat(Heartbeat(**(values | wishes)), self.now))  # type: ignore[arg-type]

    def create(
        self,
        name: str,
        partitions: int = DEFAULT,
        replicas: int = DEFAULT,
        assignments: Mapping[int, tuple[int, ...]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        *,
        validate_only: bool = False,
    ) -> TopicCreated | KafkaError:
        topic = NewTopic(name, partitions, replicas, list((assignments or {}).items()), list((configs or {}).items()))
        return self.take(self.controller.create_topics([topic], validate_only=validate_only))[name]

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        return self.image.topics_by_name[topic].partitions[index]

    def rejoin(self, topic_name: str) -> None:
        """Every replica that is alive has caught up with its leader."""
        topic = self.image.topics_by_name[topic_name]
        for index, partition in topic.partitions.items():
            if partition.has_leader:
                isr = [(one, self.image.brokers[one].epoch) for one in partition.replicas if self.is_alive(one)]
                change = IsrChange(topic.id, index, partition.leader_epoch, partition.partition_epoch, isr, RECOVERED)
                epoch = self.image.brokers[partition.leader].epoch
                self.take(self.controller.alter_partitions(partition.leader, epoch, [change]))

    def is_alive(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown
