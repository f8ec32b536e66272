from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import (
    BrokerHeartbeatReply,
    ControllerRegistration,
    ControllerResult,
    DirectoryAssignment,
    Heartbeat,
)
from odradek.core.metadata.directories import LOST, MIGRATING
from odradek.core.metadata.image import RECOVERED, RECOVERING
from odradek.core.metadata.records import Endpoint, RegisterBrokerRecord, SupportedFeature
from tests.unit.core.controller.cluster import Cluster, directory_of


class TestRegistration:
    def test_a_new_broker_is_fenced_until_it_is_heard_of(self) -> None:
        cluster = Cluster(brokers=0)
        next_offset = cluster.image.offset + 1
        epoch = cluster.register(1)
        assert epoch == next_offset == cluster.image.brokers[1].epoch
        assert cluster.image.brokers[1].fenced
        assert cluster.beat(1) == BrokerHeartbeatReply(True, False, False, False)
        assert not cluster.image.brokers[1].fenced

    def test_one_that_has_not_read_its_own_registration_stays_fenced(self) -> None:
        cluster = Cluster(brokers=0)
        epoch = cluster.register(1)
        answer = cluster.beat(1, metadata_offset=epoch - 1)
        assert (answer.is_caught_up, answer.is_fenced) == (False, True)
        assert cluster.image.brokers[1].fenced

    def test_the_epoch_is_the_first_offset_but_catching_up_means_the_record_itself(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 3, 1)
        epoch = cluster.register(1, incarnation=2)
        assert cluster.image.offset == epoch + 3
        assert not cluster.beat(1, metadata_offset=epoch).is_caught_up
        assert cluster.beat(1, metadata_offset=epoch + 3).is_caught_up

    def test_the_same_incarnation_only_amends(self) -> None:
        cluster = Cluster()
        before = cluster.image.brokers[1]
        assert cluster.register(1, rack="r") == before.epoch
        after = cluster.image.brokers[1]
        assert (after.rack, after.fenced, after.epoch) == ("r", False, before.epoch)

    def test_a_restarted_process_with_the_same_directories_is_let_in_at_once(self) -> None:
        cluster = Cluster()
        assert cluster.register(1, incarnation=2) > 0
        assert cluster.image.brokers[1].incarnation_id == UUID(int=2)

    def test_so_is_one_whose_other_directory_failed_or_was_mended(self) -> None:
        cluster = Cluster()
        (directory,) = cluster.image.brokers[1].directories
        assert cluster.register(1, incarnation=2, directories=(directory, UUID(int=5000))) > 0
        assert cluster.register(1, incarnation=3, directories=(UUID(int=5000),)) > 0

    def test_another_process_has_to_wait_for_the_session_to_end(self) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError) as raised:
            cluster.register(1, incarnation=2, directories=(UUID(int=5000),))
        assert raised.value.code is ErrorCode.duplicate_broker_registration
        cluster.now += 9.1
        assert cluster.register(1, incarnation=2, directories=(UUID(int=5000),)) > 0

    def test_heartbeats_keep_the_session(self) -> None:
        cluster = Cluster()
        for _ in range(3):
            cluster.now += 5
            cluster.beat(1)
        with pytest.raises(KafkaError, match="Another broker is registered"):
            cluster.register(1, incarnation=2, directories=(UUID(int=5000),))

    def test_a_new_controller_gives_every_broker_a_session(self) -> None:
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
    def test_refusals(self, changes: dict[str, object], code: ErrorCode) -> None:
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
    def test_of_a_stranger_and_of_an_old_incarnation(self) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError, match="Expected broker epoch") as raised:
            cluster.beat(1, broker_epoch=3)
        assert raised.value.code is ErrorCode.stale_broker_epoch
        epoch = cluster.image.brokers[1].epoch
        cluster.take(cluster.controller.unregister_broker(1))
        stranger = Heartbeat(1, epoch, cluster.image.offset, False, False, (), None)
        with pytest.raises(KafkaError, match="No broker registration found for broker id 1"):
            cluster.controller.heartbeat(stranger, cluster.now)

    def test_a_quiet_heartbeat_writes_nothing(self) -> None:
        cluster = Cluster()
        before = cluster.image
        cluster.beat(1)
        assert cluster.image == before

    def test_fencing_on_request(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        assert cluster.beat(1, want_fence=True).is_fenced
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (2, (2,))

    def test_a_dead_broker_does_not_keep_another_from_leaving(self) -> None:
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

    def test_a_controlled_shutdown_moves_leadership_away_first(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        answer = cluster.beat(1, want_shutdown=True)
        assert (answer.in_controlled_shutdown, answer.should_shut_down) == (True, False)
        assert cluster.partition("orders").leader == 2
        # Broker 2 has not yet read that it leads.
        assert not cluster.beat(1, want_shutdown=True).should_shut_down
        cluster.beat(2)
        assert cluster.beat(1, want_shutdown=True).should_shut_down
        assert cluster.image.brokers[1].fenced

    def test_who_leads_nothing_may_go_at_once(self) -> None:
        cluster = Cluster(brokers=2)
        assert cluster.beat(1, want_shutdown=True).should_shut_down

    def test_a_fenced_broker_may_go_at_once(self) -> None:
        cluster = Cluster(brokers=0)
        cluster.register(1)
        before = cluster.image
        assert cluster.beat(1, want_shutdown=True).should_shut_down
        assert cluster.image == before

    def test_an_offline_directory_takes_its_leaders_along(self) -> None:
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


class TestComingBack:
    def test_after_a_clean_stop_the_eligible_replica_leads_again(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        epoch = cluster.image.brokers[1].epoch
        cluster.beat(1, want_shutdown=True)
        cluster.beat(1, want_shutdown=True)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
        cluster.register(1, incarnation=2, previous_broker_epoch=epoch)
        assert cluster.partition("orders").elr == (1,)
        cluster.beat(1)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
        assert partition.leader_recovery_state == RECOVERED

    def test_after_kill_9_the_last_known_leader_leads_again(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        cluster.register(1, incarnation=2)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (1,))
        cluster.beat(1)
        partition = cluster.partition("orders")
        assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
        assert partition.leader_recovery_state == RECOVERING

    def test_an_unclean_replica_is_no_longer_eligible_while_another_is(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)}, configs={"min.insync.replicas": "2"})
        cluster.beat(2, want_fence=True)
        assert cluster.partition("orders").elr == (2,)
        cluster.register(2, incarnation=2)
        assert cluster.partition("orders").elr == ()
        cluster.beat(2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_without_eligible_leader_replicas_the_last_in_sync_set_is_kept(self) -> None:
        cluster = Cluster(metadata_version=25)
        cluster.create("orders", 1, 1)
        cluster.register(1, incarnation=2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (-1, (1,))
        cluster.beat(1)
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_old_requests_cannot_tell_a_clean_stop(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        epoch = cluster.image.brokers[1].epoch
        cluster.register(1, incarnation=2, previous_broker_epoch=epoch, detects_unclean_shutdown=False)
        assert cluster.partition("orders").elr == ()


class TestSessions:
    def test_a_silent_broker_is_fenced_and_its_partitions_get_other_leaders(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (2, 1)})
        cluster.now += 5
        cluster.beat(1)
        cluster.now += 4.1
        assert cluster.take(cluster.controller.expire_sessions(cluster.now)) == 2
        assert cluster.image.brokers[2].fenced
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))
        assert cluster.controller.expire_sessions(cluster.now) == ControllerResult((), None)

    def test_one_at_a_time_the_longest_silent_first(self) -> None:
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

    def test_the_next_expiry_is_that_of_the_longest_silent(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.now += 1
        cluster.beat(1)
        assert cluster.controller.next_session_expiry() == 109.0
        cluster.beat(2, want_fence=True)
        assert cluster.controller.next_session_expiry() == 110.0
        cluster.beat(1, want_fence=True)
        assert cluster.controller.next_session_expiry() is None

    def test_a_session_is_over_only_after_its_last_moment(self) -> None:
        cluster = Cluster()
        ends_at = cluster.controller.next_session_expiry()
        assert ends_at is not None
        assert cluster.controller.expire_sessions(ends_at).response is None
        assert cluster.controller.expire_sessions(ends_at + 0.001).response == 1

    def test_fenced_brokers_have_nothing_to_lose(self) -> None:
        cluster = Cluster()
        cluster.register(2)
        cluster.now += 100
        cluster.beat(1)
        assert cluster.controller.expire_sessions(cluster.now).response is None

    def test_it_comes_back_with_its_next_heartbeat(self) -> None:
        cluster = Cluster()
        cluster.now += 10
        cluster.take(cluster.controller.expire_sessions(cluster.now))
        assert not cluster.beat(1).is_fenced
        assert not cluster.image.brokers[1].fenced

    def test_a_new_controller_expires_nobody_before_a_whole_session(self) -> None:
        cluster = Cluster()
        cluster.now += 100
        cluster.controller.start_sessions(cluster.now)
        assert cluster.controller.expire_sessions(cluster.now + 9).response is None
        assert cluster.controller.expire_sessions(cluster.now + 9.1).response == 1


class TestEarlyFence:
    def test_fences_the_registration_that_was_probed(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (2, 1)})
        epoch = cluster.image.brokers[2].epoch
        cluster.now += 0.5
        assert cluster.take(cluster.controller.fence_unresponsive_broker(2, epoch, cluster.now - 0.3))
        assert cluster.image.brokers[2].fenced
        assert cluster.partition("orders").leader == 1

    def test_not_one_that_came_after_it(self) -> None:
        cluster = Cluster(brokers=2)
        epoch = cluster.image.brokers[2].epoch
        cluster.register(2, incarnation=2)
        cluster.beat(2)
        assert cluster.controller.fence_unresponsive_broker(2, epoch, cluster.now) == ControllerResult((), False)

    def test_not_one_that_was_heard_of_meanwhile(self) -> None:
        cluster = Cluster(brokers=2)
        epoch = cluster.image.brokers[2].epoch
        unresponsive_since = cluster.now
        cluster.now += 0.3
        cluster.beat(2)
        assert cluster.controller.fence_unresponsive_broker(2, epoch, unresponsive_since) == ControllerResult((), False)

    def test_nor_a_stranger_or_one_that_is_fenced(self) -> None:
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

    def test_register_themselves(self) -> None:
        cluster = Cluster()
        cluster.take(cluster.controller.register_controller(self.registration))
        controller = cluster.image.controllers[7]
        assert (controller.incarnation_id, controller.endpoints) == (UUID(int=99), self.registration.endpoints)

    def test_not_in_a_cluster_that_cannot_know_them(self) -> None:
        with pytest.raises(KafkaError, match="too old to support controller registrations") as raised:
            Cluster(metadata_version=14).controller.register_controller(self.registration)
        assert raised.value.code is ErrorCode.unsupported_version

    def test_no_op_record_changes_only_the_offset(self) -> None:
        cluster = Cluster()
        before = cluster.image
        cluster.take(cluster.controller.write_no_op())
        assert cluster.image == before.moved_to(offset=before.offset + 1, epoch=1, timestamp_ms=0)


class TestUnregistration:
    def test_takes_the_broker_out_of_everything(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)}, configs={"min.insync.replicas": "2"})
        cluster.beat(2, want_fence=True)
        cluster.take(cluster.controller.unregister_broker(2))
        assert 2 not in cluster.image.brokers
        assert cluster.partition("orders").isr == (1,)
        assert cluster.controller.image.brokers.keys() == {1}
        # Its directory is free for another.
        cluster.register(3, directories=(directory_of(2),))

    def test_of_a_stranger(self) -> None:
        with pytest.raises(KafkaError, match="Broker ID 9 is not currently registered"):
            Cluster().controller.unregister_broker(9)


class TestDirectoryAssignment:
    def test_results_stand_beside_their_assignments(self) -> None:
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

    def test_a_lost_directory_costs_leadership(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch
        cluster.take(cluster.controller.assign_directories(1, epoch, [DirectoryAssignment(orders, 0, LOST)]))
        assert (cluster.partition("orders").leader, cluster.partition("orders").directories) == (-1, (LOST,))

    def test_another_leads_and_who_comes_back_follows(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)})
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch

        def assign(directory: UUID) -> tuple[int, tuple[int, ...]]:
            cluster.take(cluster.controller.assign_directories(1, epoch, [DirectoryAssignment(orders, 0, directory)]))
            return cluster.partition("orders").leader, cluster.partition("orders").isr

        assert assign(LOST) == (2, (2, 3))
        assert assign(directory_of(1)) == (2, (2, 3))

    def test_a_replica_begun_anew_is_not_eligible(self) -> None:
        """Its dir was taken out of log.dirs; it stopped cleanly, and says so."""
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
        for broker in (3, 2, 1):
            cluster.beat(broker, want_fence=True)
        assert cluster.partition("orders").elr == (1, 2)
        previous = cluster.image.brokers[2].epoch
        cluster.now += 100
        cluster.register(2, incarnation=2, directories=(directory_of(2, 1),), previous_broker_epoch=previous)
        cluster.beat(2)
        assert (cluster.partition("orders").leader, cluster.partition("orders").elr) == (-1, (1, 2))
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[2].epoch
        begun = [DirectoryAssignment(orders, 0, directory_of(2, 1))]
        assert cluster.take(cluster.controller.assign_directories(2, epoch, begun)) == [None]
        assert (cluster.partition("orders").leader, cluster.partition("orders").elr) == (-1, (1,))
        cluster.beat(1)
        assert cluster.partition("orders").leader == 1

    def test_the_only_replica_begun_anew_leads(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        cluster.now += 100
        cluster.register(1, incarnation=2, directories=(directory_of(1, 1),))
        cluster.beat(1)
        assert cluster.partition("orders").leader == -1
        orders = cluster.image.topics_by_name["orders"].id
        epoch = cluster.image.brokers[1].epoch
        begun = [DirectoryAssignment(orders, 0, directory_of(1, 1))]
        cluster.take(cluster.controller.assign_directories(1, epoch, begun))
        assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (1, (1,))

    def test_the_metadata_version_must_know_them(self) -> None:
        cluster = Cluster(metadata_version=16)
        cluster.create("orders", 1, 1)
        assert cluster.partition("orders").directories == (MIGRATING,)
        with pytest.raises(KafkaError) as raised:
            cluster.controller.assign_directories(1, cluster.image.brokers[1].epoch, [])
        assert raised.value.code is ErrorCode.unsupported_version


def test_registration_record_is_the_last_of_its_decision() -> None:
    cluster = Cluster()
    cluster.create("orders", 2, 1)
    result = cluster.controller.register_broker(cluster.registration(1, incarnation=2), cluster.now)
    assert isinstance(result.records[-1], RegisterBrokerRecord)
    assert len(result.records) == 3
