"""A controller sees to it that the metadata know it."""

from uuid import UUID

from odradek.config.listeners import Listener
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord, RegisterControllerRecord
from odradek.node.controller_registration import OwnRegistration
from odradek.sim.world import World
from tests.unit.core.controller.cluster import Cluster
from tests.unit.node.controllers_stage import Stage

NODE_ID, INCARNATION = 7, UUID(int=70)


class Registering:
    def __init__(self, world: World, metadata_version: int = 30) -> None:
        self.world = world
        self.stage = Stage(world)
        self.stage.cluster = Cluster(brokers=2, metadata_version=metadata_version)
        self.stage.on(self.stage.broker, self._open)

    def _open(self) -> None:
        self.registration = OwnRegistration(
            NODE_ID,
            self.stage.open_channel(retry_seconds_max=5),
            endpoints=[Listener("CONTROLLER", "PLAINTEXT", "c7", 9093)],
            incarnation_id=INCARNATION,
            random=self.stage.ports.random,
        )

    @property
    def image(self) -> ClusterImage:
        return self.stage.cluster.image

    def begin(self) -> None:
        self.stage.on(self.stage.broker, lambda: self.registration.start(self.image))

    def publish(self, *records: MetadataRecord) -> None:
        """Whatever happened since the last time, and these."""
        cluster = self.stage.cluster
        image, delta = cluster.controller.replay(records, offset=self.image.offset + 1, epoch=1, timestamp_ms=0)
        self.stage.begin(lambda: self.registration.on_image(image, delta))

    def attempts(self) -> int:
        return sum(node.controller.commands for node in self.stage.nodes.values())


def test_controller_registers(world: World) -> None:
    registering = Registering(world)
    registering.stage.lead("c1")
    registering.begin()
    world.run_for(0.1)
    controller = registering.image.controllers[NODE_ID]
    assert controller.incarnation_id == INCARNATION
    assert [(one.name, one.host, one.port) for one in controller.endpoints] == [("CONTROLLER", "c7", 9093)]
    assert {one.name for one in controller.features} >= {"kraft.version", "metadata.version"}


def test_controller_registers_once(world: World) -> None:
    registering = Registering(world)
    registering.stage.lead("c1")
    registering.begin()
    world.run_for(0.1)
    registering.begin()
    world.run_for(1)
    assert registering.attempts() == 1


def test_registration_is_retried(world: World) -> None:
    registering = Registering(world)
    registering.begin()
    world.run_for(100)
    assert NODE_ID not in registering.image.controllers
    registering.stage.lead("c2")
    world.run_for(30)
    assert NODE_ID in registering.image.controllers
    registering.stage.check()


def test_registration_waits_for_the_metadata_version(world: World) -> None:
    registering = Registering(world, metadata_version=14)
    registering.stage.lead("c1")
    registering.begin()
    world.run_for(10)
    assert registering.attempts() == 0
    registering.publish(FeatureLevelRecord(name="metadata.version", feature_level=15))
    world.run_for(0.1)
    assert NODE_ID in registering.image.controllers


def test_unrelated_change_starts_no_registration(world: World) -> None:
    registering = Registering(world)
    registering.stage.lead("c1")
    registering.publish(FeatureLevelRecord(name="group.version", feature_level=0))
    world.run_for(1)
    assert registering.attempts() == 0


def test_stopped_registration_is_not_retried(world: World) -> None:
    registering = Registering(world)
    registering.begin()
    registering.stage.on(registering.stage.broker, registering.registration.stop)
    registering.stage.lead("c1")
    world.run_for(60)
    assert registering.attempts() == 0
    registering.stage.check()


def test_former_incarnation_is_replaced(world: World) -> None:
    registering = Registering(world)
    registering.stage.lead("c1")
    registering.begin()
    world.run_for(0.1)
    old = registering.image.controllers[NODE_ID]
    assert old.incarnation_id == INCARNATION
    record = RegisterControllerRecord(
        controller_id=NODE_ID,
        incarnation_id=UUID(int=1),
        zk_migration_ready=False,
        end_points=old.endpoints,
        features=old.features,
    )
    registering.publish(record)
    world.run_for(0.1)
    assert registering.image.controllers[NODE_ID].incarnation_id == INCARNATION
