from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import (
    BrokerHeartbeatReply,
    ControllerRegistration,
    ControllerResult,
    DeadProcess,
    DirectoryAssignment,
    Heartbeat,
)
from odradek.core.metadata.directories import LOST, MIGRATING
from odradek.core.metadata.image import RECOVERED, RECOVERING
from odradek.core.metadata.records import Endpoint, RegisterBrokerRecord, SupportedFeature
from tests.unit.core.controller.cluster import Cluster, directory_of


class TestRegistration:
    def test_new_broker_is_fenced_until_its_first_heartbeat(self) -> None:
        cluster = Cluster(brokers=0)
        next_offset = cluster.image.offset + 1
        epoch = cluster.register(1)
        assert epoch == next_offset == cluster.image.brokers[1].epoch
        assert cluster.image.brokers[1].fenced
        assert cluster.beat(1) == BrokerHeartbeatReply(True, False, False, False)
        assert not cluster.image.brokers[1].fenced

    def test_broker_stays_fenced_until_it_has_applied_its_registration(self) -> None:
        cluster = Cluster(brokers=0)
        epoch = cluster.register(1)
        response = cluster.beat(1, metadata_offset=epoch - 1)
        assert (response.is_caught_up, response.is_fenced) == (False, True)
        assert cluster.image.brokers[1].fenced

    def test_broker_epoch_is_the_first_offset_of_the_registration(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 3, 1)
        epoch = cluster.restart(1, incarnation=2)
        assert cluster.image.offset == epoch + 3
        assert not cluster.beat(1, metadata_offset=epoch).is_caught_up
        assert cluster.beat(1, metadata_offset=epoch + 3).is_caught_up

    def test_same_incarnation_keeps_its_epoch(self) -> None:
        cluster = Cluster()
        before = cluster.image.brokers[1]
        assert cluster.register(1, rack="r") == before.epoch
        after = cluster.image.brokers[1]
        assert (after.rack, after.fenced, after.epoch) == ("r", False, before.epoch)

    def test_copy_of_the_directories_does_not_replace_a_live_broker(self) -> None:
        """Directory IDs are copied with the disk: they do not show that the registered process has ended."""
        cluster = Cluster()
        with pytest.raises(KafkaError) as raised:
            cluster.register(1, incarnation=2)
        assert raised.value.code is ErrorCode.duplicate_broker_registration
        cluster.now += 9.1
        assert cluster.register(1, incarnation=2) > 0

    def test_restarted_broker_registers_at_once_if_its_old_process_is_dead(self) -> None:
        cluster = Cluster()
        assert cluster.restart(1) > 0
        assert cluster.image.brokers[1].incarnation_id == UUID(int=2)

    def test_restarted_broker_needs_one_directory_of_its_old_process(self) -> None:
        cluster = Cluster()
        (directory,) = cluster.image.brokers[1].directories
        assert cluster.restart(1, directories=(directory, UUID(int=5000))) > 0
        cluster.beat(1)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.restart(1, incarnation=3, directories=(UUID(int=6000),))
        assert cluster.restart(1, incarnation=3, directories=(UUID(int=5000),)) > 0

    def test_proof_about_another_registration_does_not_count(self) -> None:
        cluster = Cluster()
        dead = DeadProcess(cluster.image.brokers[1].epoch - 1, cluster.now)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2, dead_process=dead)

    def test_heartbeat_after_the_probe_refutes_it(self) -> None:
        cluster = Cluster()
        dead = DeadProcess(cluster.image.brokers[1].epoch, cluster.now)
        cluster.now += 0.1
        cluster.beat(1)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2, dead_process=dead)

    def test_session_ends_with_a_controlled_shutdown(self) -> None:
        cluster = Cluster()
        assert cluster.beat(1, want_shutdown=True).should_shut_down
        assert cluster.register(1, incarnation=2) > 0

    def test_session_ends_when_the_process_is_found_dead(self) -> None:
        cluster = Cluster(brokers=3)
        epoch = cluster.image.brokers[1].epoch
        assert cluster.take(cluster.controller.fence_unresponsive_broker(1, epoch, cluster.now))
        assert not cluster.controller.has_session(1, cluster.now)
        assert cluster.register(1, incarnation=2) > 0

    def test_broker_that_was_wrongly_found_dead_has_a_session_again(self) -> None:
        cluster = Cluster(brokers=3)
        epoch = cluster.image.brokers[1].epoch
        cluster.take(cluster.controller.fence_unresponsive_broker(1, epoch, cluster.now))
        assert not cluster.beat(1).is_fenced
        assert cluster.controller.has_session(1, cluster.now)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2)

    def test_broker_with_other_directories_waits_for_session_expiry(self) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError) as raised:
            cluster.register(1, incarnation=2, directories=(UUID(int=5000),))
        assert raised.value.code is ErrorCode.duplicate_broker_registration
        cluster.now += 9.1
        assert cluster.register(1, incarnation=2, directories=(UUID(int=5000),)) > 0

    def test_heartbeats_extend_the_session(self) -> None:
        cluster = Cluster()
        for _ in range(3):
            cluster.now += 5
            cluster.beat(1)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2, directories=(UUID(int=5000),))

    def test_new_controller_starts_a_session_for_every_broker(self) -> None:
        cluster = Cluster()
        cluster.now += 100
        cluster.controller.start_sessions(cluster.now)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2, directories=(UUID(int=5000),))

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
            ({"is_migrating_zk_broker": True}, ErrorCode.broker_id_not_registered),
            ({"directories": ()}, ErrorCode.invalid_registration),
            ({"directories": (UUID(int=99),)}, ErrorCode.invalid_registration),
            ({"directories": (UUID(int=500), UUID(int=500))}, ErrorCode.invalid_registration),
            ({"directories": (directory_of(1),)}, ErrorCode.invalid_registration),
            ({"features": ()}, ErrorCode.invalid_registration),
            (
                {
                    "features": (
                        SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=29),
                    )
                },
                ErrorCode.unsupported_version,
            ),
            (
                {
                    "features": (
                        SupportedFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),
                    )
                },
                ErrorCode.unsupported_version,
            ),
        ],
    )
    def test_invalid_registrations_are_rejected(self, changes: dict[str, object], code: ErrorCode) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError) as raised:
            cluster.register(2, **changes)
        assert raised.value.code is code
        assert 2 not in cluster.image.brokers

    def test_without_directories_below_their_metadata_version(self) -> None:
        cluster = Cluster(brokers=0, metadata_version=16)
        cluster.register(1, directories=())
        assert cluster.image.brokers[1].directories == ()


class TestHeartbeats:
    def test_heartbeats_of_unknown_brokers_and_old_epochs_are_rejected(self) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError, match="Expected broker epoch") as raised:
            cluster.beat(1, broker_epoch=3)
        assert raised.value.code is ErrorCode.stale_broker_epoch
        epoch = cluster.image.brokers[1].epoch
        cluster.take(cluster.controller.unregister_broker(1))
        stranger = Heartbeat(1, epoch, cluster.image.offset, False, False, (), None)
        with pytest.raises(KafkaError, match="No broker registration found for broker id 1"):
            cluster.controller.heartbeat(stranger, cluster.now)

    def test_heartbeat_without_change_writes_no_records(self) -> None:
        cluster = Cluster()
        before = cluster.image
        cluster.beat(1)
        assert cluster.image == before

    def test_fencing_on_request(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        assert cluster.beat(1, want_fence=True).is_fenced
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (2, (2,))

    def test_dead_broker_does_not_delay_controlled_shutdown_of_another(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)})
        cluster.now += 5
        cluster.beat(1)
        cluster.beat(2)
        cluster.now += 4.5
        assert cluster.take(cluster.controller.expire_sessions(cluster.now)) == 3
        assert not cluster.beat(1, want_shutdown=True).should_shut_down
        assert not cluster.beat(1, want_shutdown=True).should_shut_down
        cluster.beat(2)
        assert cluster.beat(1, want_shutdown=True).should_shut_down

    def test_controlled_shutdown_moves_leadership_first(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        response = cluster.beat(1, want_shutdown=True)
        assert (response.in_controlled_shutdown, response.should_shut_down) == (True, False)
        assert cluster.partition("orders").leader == 2
        # Broker 2 has not yet read that it leads.
        assert not cluster.beat(1, want_shutdown=True).should_shut_down
        cluster.beat(2)
        assert cluster.beat(1, want_shutdown=True).should_shut_down
        assert cluster.image.brokers[1].fenced

    def test_broker_without_leadership_may_shut_down_at_once(self) -> None:
        cluster = Cluster(brokers=2)
        assert cluster.beat(1, want_shutdown=True).should_shut_down

    def test_fenced_broker_may_shut_down_at_once(self) -> None:
        cluster = Cluster(brokers=0)
        cluster.register(1)
        before = cluster.image
        assert cluster.beat(1, want_shutdown=True).should_shut_down
        assert cluster.image == before

    def test_offline_directory_loses_leadership(self) -> None:
        cluster = Cluster(brokers=0)
        first, second = directory_of(1), directory_of(1, 1)
        cluster.register(1, directories=(first, second))
        cluster.beat(1)
        cluster.create("orders", 2, 1)
        orders = cluster.image.topics_by_name["orders"].id
        assignments = [DirectoryAssignment(orders, 0, first), DirectoryAssignment(orders, 1, second)]
        epoch = cluster.image.brokers[1].epoch
        assert cluster.take(cluster.controller.assign_directories(1, epoch, assignments)) == [None, None]
        cluster.beat(1, offline_directories=(second,))
        assert cluster.image.brokers[1].directories == (first,)
        assert cluster.partition("orders", 0).leader == 1
        assert cluster.partition("orders", 1).leader == -1
        before = cluster.image
        cluster.beat(1, offline_directories=(second,))
        assert cluster.image == before

    def test_cordoned_directories_take_no_new_replicas(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.beat(2, cordoned_directories=(directory_of(2),))
        assert cluster.image.brokers[2].cordoned_directories == (directory_of(2),)
        cluster.create("orders", 8, 1)
        assert {cluster.partition("orders", index).leader for index in range(8)} == {1}


class TestRestart:
    def test_after_a_clean_stop_the_eligible_replica_leads_again(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        epoch = cluster.image.brokers[1].epoch
        cluster.beat(1, want_shutdown=True)
        cluster.beat(1, want_shutdown=True)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
        cluster.restart(1, incarnation=2, previous_broker_epoch=epoch)
        assert cluster.partition("orders").elr == (1,)
        cluster.beat(1)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
        assert partition.leader_recovery_state == RECOVERED

    def test_after_kill_9_the_last_known_leader_leads_again(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        cluster.restart(1, incarnation=2)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (1,))
        cluster.beat(1)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
        assert partition.leader_recovery_state == RECOVERING

    def test_unclean_shutdown_removes_the_replica_from_the_elr(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)}, configs={"min.insync.replicas": "2"})
        cluster.beat(2, want_fence=True)
        assert cluster.partition("orders").elr == (2,)
        cluster.restart(2, incarnation=2)
        assert cluster.partition("orders").elr == ()
        cluster.beat(2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_without_eligible_leader_replicas_the_last_in_sync_set_is_kept(self) -> None:
        cluster = Cluster(metadata_version=25)
        cluster.create("orders", 1, 1)
        cluster.restart(1, incarnation=2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (-1, (1,))
        cluster.beat(1)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_old_request_versions_count_as_unclean_shutdown(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        epoch = cluster.image.brokers[1].epoch
        cluster.restart(1, incarnation=2, previous_broker_epoch=epoch, detects_unclean_shutdown=False)
        assert cluster.partition("orders").elr == ()


class TestSessions:
    def test_expired_session_fences_the_broker_and_elects_leaders(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (2, 1)})
        cluster.now += 5
        cluster.beat(1)
        cluster.now += 4.1
        assert cluster.take(cluster.controller.expire_sessions(cluster.now)) == 2
        assert cluster.image.brokers[2].fenced
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))
        assert cluster.controller.expire_sessions(cluster.now) == ControllerResult((), None)

    def test_sessions_expire_one_at_a_time_oldest_first(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (3, 2, 1)})
        cluster.now += 1
        cluster.beat(2)
        cluster.now += 1
        cluster.beat(1)
        cluster.now += 20
        order = []
        while (broker_id := cluster.take(cluster.controller.expire_sessions(cluster.now))) is not None:
            order.append(broker_id)
        assert order == [3, 2, 1]
        assert cluster.partition("orders").leader == -1
        # The last of them may lead again: it had everything.
        assert cluster.partition("orders").elr == (1,)

    def test_next_expiry_is_that_of_the_oldest_heartbeat(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.now += 1
        cluster.beat(1)
        assert cluster.controller.next_session_expiry() == 109.0
        cluster.beat(2, want_fence=True)
        assert cluster.controller.next_session_expiry() == 110.0
        cluster.beat(1, want_fence=True)
        assert cluster.controller.next_session_expiry() is None

    def test_session_expires_only_after_the_timeout(self) -> None:
        cluster = Cluster()
        ends_at = cluster.controller.next_session_expiry()
        assert ends_at is not None
        assert cluster.controller.expire_sessions(ends_at).response is None
        assert cluster.controller.expire_sessions(ends_at + 0.001).response == 1

    def test_fenced_brokers_have_no_session_to_expire(self) -> None:
        cluster = Cluster()
        cluster.register(2)
        cluster.now += 100
        cluster.beat(1)
        assert cluster.controller.expire_sessions(cluster.now).response is None

    def test_expired_broker_is_unfenced_by_its_next_heartbeat(self) -> None:
        cluster = Cluster()
        cluster.now += 10
        cluster.take(cluster.controller.expire_sessions(cluster.now))
        assert not cluster.beat(1).is_fenced
        assert not cluster.image.brokers[1].fenced

    def test_new_controller_expires_no_session_before_a_full_timeout(self) -> None:
        cluster = Cluster()
        cluster.now += 100
        cluster.controller.start_sessions(cluster.now)
        assert cluster.controller.expire_sessions(cluster.now + 9).response is None
        assert cluster.controller.expire_sessions(cluster.now + 9.1).response == 1


class TestEarlyFence:
    def test_unresponsive_broker_is_fenced(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (2, 1)})
        epoch = cluster.image.brokers[2].epoch
        cluster.now += 0.5
        assert cluster.take(cluster.controller.fence_unresponsive_broker(2, epoch, cluster.now - 0.3))
        assert cluster.image.brokers[2].fenced
        assert cluster.partition("orders").leader == 1

    def test_newer_registration_is_not_fenced(self) -> None:
        cluster = Cluster(brokers=2)
        epoch = cluster.image.brokers[2].epoch
        cluster.restart(2, incarnation=2)
        cluster.beat(2)
        assert cluster.controller.fence_unresponsive_broker(2, epoch, cluster.now) == ControllerResult((), False)

    def test_broker_with_a_newer_heartbeat_is_not_fenced(self) -> None:
        cluster = Cluster(brokers=2)
        epoch = cluster.image.brokers[2].epoch
        unresponsive_since = cluster.now
        cluster.now += 0.3
        cluster.beat(2)
        assert cluster.controller.fence_unresponsive_broker(2, epoch, unresponsive_since) == ControllerResult((), False)

    def test_unknown_or_fenced_broker_is_not_fenced_again(self) -> None:
        cluster = Cluster()
        epoch = cluster.register(2)
        assert cluster.controller.fence_unresponsive_broker(2, epoch, cluster.now) == ControllerResult((), False)
        assert cluster.controller.fence_unresponsive_broker(3, 5, cluster.now) == ControllerResult((), False)


class TestControllers:
    registration = ControllerRegistration(
        controller_id=7,
        incarnation_id=UUID(int=99),
        endpoints=(Endpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0),),
        features=(SupportedFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
    )

    def test_controller_registration_is_recorded(self) -> None:
        cluster = Cluster()
        cluster.take(cluster.controller.register_controller(self.registration))
        controller = cluster.image.controllers[7]
        assert (controller.incarnation_id, controller.endpoints) == (UUID(int=99), self.registration.endpoints)

    def test_old_metadata_version_rejects_controller_registration(self) -> None:
        with pytest.raises(KafkaError, match="too old to support controller registrations") as raised:
            Cluster(metadata_version=14).controller.register_controller(self.registration)
        assert raised.value.code is ErrorCode.unsupported_version

    def test_no_op_record_changes_only_the_offset(self) -> None:
        cluster = Cluster()
        before = cluster.image
        cluster.take(cluster.controller.write_no_op())
        assert cluster.image == before.at_offset(offset=before.offset + 1, epoch=1, timestamp_ms=0)


class TestUnregistration:
    def test_unregistered_broker_leaves_isr_and_elr(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)}, configs={"min.insync.replicas": "2"})
        cluster.beat(2, want_fence=True)
        cluster.take(cluster.controller.unregister_broker(2))
        assert 2 not in cluster.image.brokers
        assert cluster.partition("orders").isr == (1,)
        assert cluster.controller.image.brokers.keys() == {1}
        # Its directory is free for another.
        cluster.register(3, directories=(directory_of(2),))

    def test_unknown_broker_cannot_be_unregistered(self) -> None:
        with pytest.raises(KafkaError, match="Broker ID 9 is not currently registered"):
            Cluster().controller.unregister_broker(9)


class TestDirectoryAssignment:
    def test_directory_assignments_have_one_result_each(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1,)})
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[2].epoch
        results = cluster.controller.assign_directories(
            2,
            epoch,
            [
                DirectoryAssignment(UUID(int=1234), 0, directory_of(2)),
                DirectoryAssignment(orders, 7, directory_of(2)),
                DirectoryAssignment(orders, 0, directory_of(2)),
            ],
        ).response
        assert [result and result.code for result in results] == [
            ErrorCode.unknown_topic_id,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.not_leader_or_follower,
        ]

    def test_assignment_to_an_offline_directory_loses_leadership(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch
        cluster.take(cluster.controller.assign_directories(1, epoch, [DirectoryAssignment(orders, 0, LOST)]))
        assert (cluster.partition("orders").leader, cluster.partition("orders").directories) == (-1, (LOST,))

    def test_replica_in_a_new_directory_becomes_follower(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)})
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch

        def assign(directory: UUID) -> tuple[int, tuple[int, ...]]:
            cluster.take(cluster.controller.assign_directories(1, epoch, [DirectoryAssignment(orders, 0, directory)]))
            return cluster.partition("orders").leader, cluster.partition("orders").isr

        assert assign(LOST) == (2, (2, 3))
        assert assign(directory_of(1)) == (2, (2, 3))

    def test_empty_replica_in_a_new_directory_is_not_eligible(self) -> None:
        """Its dir was taken out of log.dirs; it stopped cleanly, and says so."""
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
        for broker in (3, 2, 1):
            cluster.beat(broker, want_fence=True)
        assert cluster.partition("orders").elr == (1, 2)
        previous = cluster.image.brokers[2].epoch
        cluster.now += 100
        cluster.restart(2, incarnation=2, directories=(directory_of(2, 1),), previous_broker_epoch=previous)
        cluster.beat(2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").elr) == (-1, (1, 2))
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[2].epoch
        begun = [DirectoryAssignment(orders, 0, directory_of(2, 1))]
        assert cluster.take(cluster.controller.assign_directories(2, epoch, begun)) == [None]
        assert (cluster.partition("orders").leader, cluster.partition("orders").elr) == (-1, (1,))
        cluster.beat(1)
        assert cluster.partition("orders").leader == 1

    def test_only_replica_in_a_new_directory_leads(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        cluster.now += 100
        cluster.restart(1, incarnation=2, directories=(directory_of(1, 1),))
        cluster.beat(1)
        assert cluster.partition("orders").leader == -1
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch
        begun = [DirectoryAssignment(orders, 0, directory_of(1, 1))]
        cluster.take(cluster.controller.assign_directories(1, epoch, begun))
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_old_metadata_version_rejects_directory_assignments(self) -> None:
        cluster = Cluster(metadata_version=16)
        cluster.create("orders", 1, 1)
        assert cluster.partition("orders").directories == (MIGRATING,)
        with pytest.raises(KafkaError) as raised:
            cluster.controller.assign_directories(1, cluster.image.brokers[1].epoch, [])
        assert raised.value.code is ErrorCode.unsupported_version


def test_registration_record_is_the_last_of_its_result() -> None:
    cluster = Cluster()
    cluster.create("orders", 2, 1)
    dead = DeadProcess(cluster.image.brokers[1].epoch, cluster.now)
    registration = cluster.registration(1, incarnation=2, dead_process=dead)
    result = cluster.controller.register_broker(registration, cluster.now)
    assert isinstance(result.records[-1], RegisterBrokerRecord)
    assert len(result.records) == 3
