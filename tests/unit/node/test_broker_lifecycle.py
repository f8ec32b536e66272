"""A broker's life in the cluster, from its registration to its leave, with controllers that come and go."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.config.listeners import Listener
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.records import FeatureLevelRecord
from odradek.node.broker_lifecycle import BrokerLifecycle
from odradek.sim.world import World
from odradek.wire.schemas import Message
from tests.unit.core.controller.cluster import CLUSTER_ID, Cluster
from tests.unit.node.controllers_stage import BROKER_ID, Outcome, Stage

LISTENERS = [Listener("PLAINTEXT", "PLAINTEXT", "b4", 9092)]
DIRECTORY = UUID(int=77_000)
REGISTRATION, HEARTBEAT = 62, 63


class Life:
    """A broker whose metadata are those of the cluster, unless they stand still."""

    def __init__(
        self, world: World, settings: str = "", *, cluster_id: str = CLUSTER_ID, metadata_version: int = 30
    ) -> None:
        self.world = world
        self.stage = Stage(world, settings)
        self.stage.cluster = Cluster(brokers=2, metadata_version=metadata_version)
        self.metadata_offset: int | None = None
        self.stage.on(self.stage.broker, lambda: self._begin(cluster_id))

    def _begin(self, cluster_id: str) -> None:
        stage = self.stage
        channel = stage.open_channel(retry_seconds_max=stage.config.broker_session_timeout_ms / 2000)
        self.lifecycle = BrokerLifecycle(
            stage.config,
            channel,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=4),
            metadata_offset=self._offset,
            clock=stage.ports.clock,
            random=stage.ports.random,
        )
        channel.on_disconnect(self.lifecycle.heartbeat_now)

    def _offset(self) -> int:
        return self.stage.cluster.image.offset if self.metadata_offset is None else self.metadata_offset

    def register(self, directory: UUID = DIRECTORY) -> Outcome:
        return self.stage.begin(lambda: self.lifecycle.register(LISTENERS, [directory], -1))

    def unfence(self) -> Outcome:
        return self.stage.begin(self.lifecycle.unfence)

    def stop(self, *, controlled: bool = True) -> Outcome:
        return self.stage.begin(lambda: self.lifecycle.stop(controlled=controlled))

    def serve(self, name: str = "c1") -> None:
        self.stage.lead(name)
        assert self.register()
        self.world.run_for(0.1)
        outcome = self.unfence()
        self.world.run_for(0.1)
        assert outcome.is_done
        assert not self.is_fenced

    @property
    def is_fenced(self) -> bool:
        return self.stage.cluster.image.brokers[BROKER_ID].fenced

    def requests(self, name: str, api_key: int = HEARTBEAT) -> list[Message]:
        """The requests of the broker to this controller."""
        return [request for key, request in self.stage.requests[name] if key == api_key]

    def other_brokers_beat(self) -> None:
        def accept() -> None:
            self.stage.cluster.now = self.world.now
            for broker_id in (1, 2):
                self.stage.cluster.beat(broker_id)

        self.stage.on(self.stage.broker, accept)


class TestRegistration:
    def test_broker_registers(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        outcome = life.register()
        world.run_for(0.1)
        assert outcome.is_done
        broker = life.stage.cluster.image.brokers[BROKER_ID]
        assert (broker.epoch, broker.directories) == (life.lifecycle.broker_epoch, (DIRECTORY,))
        assert [(one.name, one.host, one.port) for one in broker.endpoints] == [("PLAINTEXT", "b4", 9092)]
        assert broker.fenced

    def test_registration_waits_for_a_controller(self, world: World) -> None:
        life = Life(world)
        outcome = life.register()
        world.run_for(40)
        assert not outcome.is_done
        life.stage.lead("c2")
        world.run_for(10)
        assert outcome.is_done
        assert outcome.error is None

    def test_registration_times_out(self, world: World) -> None:
        life = Life(world)
        outcome = life.register()
        world.run_for(61)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.request_timed_out
        assert "A majority of the controllers must run" in str(outcome.error)

    def test_registration_timeout_is_configurable(self, world: World) -> None:
        life = Life(world, "initial.broker.registration.timeout.ms=10000")
        outcome = life.register()
        world.run_for(10.1)
        assert outcome.error is not None

    def test_registration_in_another_cluster_fails_at_once(self, world: World) -> None:
        life = Life(world, cluster_id="another")
        life.stage.lead("c1")
        outcome = life.register()
        world.run_for(0.1)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.inconsistent_cluster_id
        assert "belong to cluster another, and its controllers to another" in str(outcome.error)
        assert len(life.requests("c1", REGISTRATION)) == 1

    def test_registration_with_a_duplicate_directory_fails_at_once(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        (taken,) = life.stage.cluster.image.brokers[1].directories
        outcome = life.register(taken)
        world.run_for(0.1)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.invalid_registration

    def test_registration_with_the_id_of_a_dead_broker_waits_for_its_session(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.stage.cluster.now = world.now
        life.stage.cluster.add_broker(BROKER_ID)
        outcome = life.register()
        world.run_for(8)
        assert not outcome.is_done
        world.run_for(20)
        assert outcome.is_done
        assert outcome.error is None

    def test_registration_with_the_id_of_a_live_broker_fails(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.stage.cluster.add_broker(BROKER_ID)
        outcome = life.register()
        for _ in range(31):
            life.stage.cluster.now = world.now
            life.stage.cluster.beat(BROKER_ID)
            world.run_for(2)
        assert outcome.error is not None
        assert str(outcome.error) == (
            "DUPLICATE_BROKER_REGISTRATION: another broker with node.id=4 is running. Give each node a unique node.id, "
            "and do not start a copy of a running node's log dirs."
        )

    def test_registration_reports_the_last_error_and_not_the_timeout(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.stage.cluster.add_broker(BROKER_ID)
        outcome = life.register()
        world.run_for(1)
        life.stage.activate(None)
        life.stage.see(None)
        world.run_for(61)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.duplicate_broker_registration

    def test_broker_registers_again_when_the_cluster_supports_directories(self, world: World) -> None:
        life = Life(world, metadata_version=16)
        life.serve()
        cluster = life.stage.cluster
        assert cluster.image.brokers[BROKER_ID].directories == ()
        epoch = life.lifecycle.broker_epoch
        before = cluster.image
        cluster.replay((FeatureLevelRecord(name="metadata.version", feature_level=17),))
        delta = ImageDelta(previous=before, features_changed=("metadata.version",))
        life.stage.begin(lambda: life.lifecycle.on_image(cluster.image, delta))
        world.run_for(0.1)
        broker = cluster.image.brokers[BROKER_ID]
        assert (broker.directories, broker.epoch, broker.fenced) == ((DIRECTORY,), epoch, False)
        assert life.lifecycle.broker_epoch == epoch
        world.run_for(10)
        assert len(life.requests("c1", REGISTRATION)) == 2


class TestHeartbeats:
    def test_heartbeats_keep_the_broker_fenced_until_it_is_ready(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.register()
        world.run_for(20)
        assert life.is_fenced
        assert all(request.want_fence for request in life.requests("c1"))
        assert 9 <= len(life.requests("c1")) <= 12

    def test_heartbeat_unfences_a_ready_broker(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.register()
        world.run_for(3)
        outcome = life.unfence()
        world.run_for(0.05)
        assert outcome.is_done
        assert not life.is_fenced

    def test_heartbeats_follow_the_interval(self, world: World) -> None:
        life = Life(world, "broker.heartbeat.interval.ms=500")
        life.serve()
        before = len(life.requests("c1"))
        world.run_for(10)
        assert len(life.requests("c1")) - before == 20

    def test_heartbeats_are_frequent_until_the_metadata_is_applied(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.metadata_offset = 0
        life.register()
        outcome = life.unfence()
        world.run_for(0.3)
        assert not outcome.is_done
        assert life.is_fenced
        life.metadata_offset = None
        world.run_for(0.4)
        assert outcome.is_done
        assert len(life.requests("c1")) < 10

    def test_closed_connection_triggers_a_heartbeat(self, world: World) -> None:
        life = Life(world)
        life.serve()
        world.run_for(0.5)
        before = len(life.requests("c1"))
        life.stage.hang_up("c1")
        world.run_for(0.1)
        assert len(life.requests("c1")) == before + 1
        assert len(list(life.stage.limits["c1"].connections())) == 1

    def test_new_controller_triggers_a_heartbeat(self, world: World) -> None:
        life = Life(world)
        life.serve()
        world.run_for(0.5)
        life.stage.lead("c2")
        world.run_for(0.1)
        assert len(life.requests("c2")) == 1

    def test_heartbeats_go_to_the_next_controller(self, world: World) -> None:
        life = Life(world)
        life.serve()
        world.run_for(0.5)
        life.stage.computers["c1"].kill()
        world.run_for(1)
        life.stage.lead("c2")
        world.run_for(0.1)
        # The one that was under way, and the one for the new controller.
        assert 1 <= len(life.requests("c2")) <= 2
        life.stage.check()

    def test_fenced_broker_is_unfenced_by_its_next_heartbeat(self, world: World) -> None:
        life = Life(world)
        life.serve()
        life.stage.broker.pause(12)
        world.run_for(11)
        life.stage.cluster.now = world.now
        assert life.stage.cluster.take(life.stage.cluster.controller.expire_sessions(world.now)) is not None
        while life.stage.cluster.take(life.stage.cluster.controller.expire_sessions(world.now)) is not None:
            pass
        assert life.is_fenced
        world.run_for(3)
        assert not life.is_fenced

    def test_failed_heartbeats_back_off(self, world: World) -> None:
        life = Life(world)
        life.serve()
        life.stage.cluster.take(life.stage.cluster.controller.unregister_broker(BROKER_ID))
        before = len(life.requests("c1"))
        world.run_for(60)
        assert 5 < len(life.requests("c1")) - before < 20
        life.stage.check()

    def test_failed_directory_is_reported_at_once(self, world: World) -> None:
        life = Life(world)
        life.serve()
        world.run_for(0.5)
        life.stage.on(life.stage.broker, lambda: life.lifecycle.report_offline_dirs([UUID(int=5), UUID(int=6)]))
        world.run_for(0.05)
        assert life.requests("c1")[-1].offline_log_dirs == (UUID(int=5), UUID(int=6))
        world.run_for(40)
        assert not life.lifecycle.failed.done()

    def test_unreported_failed_directory_stops_the_broker(self, world: World) -> None:
        life = Life(world)
        life.serve()
        life.stage.see(None)
        life.stage.activate(None)
        life.stage.on(life.stage.broker, lambda: life.lifecycle.report_offline_dirs([UUID(int=5)]))
        world.run_for(29.9)
        assert not life.lifecycle.failed.done()
        world.run_for(0.2)
        assert "the controller did not receive the report" in life.lifecycle.failed.result()

    def test_broker_stops_when_another_process_registers_its_id(self, world: World) -> None:
        life = Life(world)
        life.serve()
        cluster = life.stage.cluster
        before = cluster.image
        cluster.restart(BROKER_ID, incarnation=99, directories=(DIRECTORY,))
        delta = ImageDelta(previous=before, brokers_changed=(BROKER_ID,))
        life.stage.begin(lambda: life.lifecycle.on_image(cluster.image, delta))
        assert "Check whether a log dir was copied." in life.lifecycle.failed.result()

    def test_replayed_old_registration_does_not_stop_the_broker(self, world: World) -> None:
        life = Life(world)
        cluster = life.stage.cluster
        cluster.register(BROKER_ID, incarnation=99, directories=(DIRECTORY,))
        past = cluster.image
        life.serve()
        life.stage.begin(lambda: life.lifecycle.on_image(past, ImageDelta(previous=past)))
        assert not life.lifecycle.failed.done()


class TestStop:
    def test_controlled_shutdown_waits_for_new_leaders(self, world: World) -> None:
        life = Life(world)
        life.serve()
        cluster = life.stage.cluster
        cluster.create("orders", assignments={0: (BROKER_ID, 1)})
        assert cluster.partition("orders").leader == BROKER_ID
        outcome = life.stop()
        world.run_for(0.5)
        assert cluster.partition("orders").leader == 1
        assert not outcome.is_done
        life.other_brokers_beat()
        world.run_for(0.3)
        assert outcome.is_done
        assert life.is_fenced
        count = len(life.requests("c1"))
        world.run_for(10)
        assert len(life.requests("c1")) == count

    def test_controlled_shutdown_without_leadership_is_fast(self, world: World) -> None:
        life = Life(world)
        life.serve()
        began_at = world.now
        outcome = life.stop()
        world.run_for(0.2)
        assert outcome.ended_at is not None and outcome.ended_at - began_at < 0.05

    def test_controlled_shutdown_survives_a_controller_failover(self, world: World) -> None:
        life = Life(world)
        life.serve()
        life.stage.cluster.create("orders", assignments={0: (BROKER_ID, 1)})
        outcome = life.stop()
        world.run_for(0.5)
        life.stage.computers["c1"].kill()
        world.run_for(0.5)
        life.stage.lead("c2")
        life.other_brokers_beat()
        world.run_for(0.5)
        assert outcome.is_done
        assert life.is_fenced

    def test_controlled_shutdown_does_not_wait_for_dead_controllers(self, world: World) -> None:
        life = Life(world)
        life.serve()
        life.stage.computers["c1"].kill()
        life.stage.computers["c2"].kill()
        outcome = life.stop()
        world.run_for(5)
        assert outcome.is_done
        life.stage.check()

    def test_uncontrolled_shutdown_sends_nothing(self, world: World) -> None:
        life = Life(world)
        life.serve()
        count = len(life.requests("c1"))
        outcome = life.stop(controlled=False)
        world.run_for(0.1)
        assert outcome.is_done
        assert len(life.requests("c1")) == count
        assert not life.is_fenced

    def test_controlled_shutdown_can_be_disabled(self, world: World) -> None:
        life = Life(world, "controlled.shutdown.enable=false")
        life.serve()
        count = len(life.requests("c1"))
        outcome = life.stop()
        world.run_for(0.1)
        assert outcome.is_done
        assert len(life.requests("c1")) == count

    @pytest.mark.parametrize("registers", [True, False])
    def test_stop_before_the_broker_served(self, world: World, registers: bool) -> None:
        life = Life(world)
        life.stage.lead("c1")
        if registers:
            life.register()
            world.run_for(0.1)
        outcome = life.stop()
        world.run_for(0.1)
        assert outcome.is_done
        life.stage.check()

    def test_stop_of_a_broker_that_waits_to_be_unfenced(self, world: World) -> None:
        life = Life(world)
        life.stage.lead("c1")
        life.metadata_offset = 0
        life.register()
        world.run_for(0.1)
        waiting = life.unfence()
        life.stop()
        world.run_for(1)
        assert not waiting.is_done
        life.stage.on(life.stage.broker, lambda: waiting.task.cancel())
        life.stage.check()
