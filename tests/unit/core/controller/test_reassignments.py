from collections.abc import Sequence
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_LEADER
from odradek.config.alteration import Change, Operation
from odradek.core.controller.commands import IsrChange, Reassignment
from odradek.core.metadata.image import RECOVERED, RECOVERING, RESOURCE_TOPIC, PartitionImage
from odradek.core.metadata.records import PartitionChangeRecord
from tests.unit.core.controller.cluster import Cluster, directory_of

ORDERS = "orders"


def move(
    cluster: Cluster, *replicas: int, index: int = 0, allow_replication_factor_change: bool = True
) -> KafkaError | None:
    return alter(cluster, Reassignment(ORDERS, index, replicas), allow=allow_replication_factor_change)[0]


def call_off(cluster: Cluster, index: int = 0) -> KafkaError | None:
    return alter(cluster, Reassignment(ORDERS, index, None))[0]


def alter(cluster: Cluster, *wanted: Reassignment, allow: bool = True) -> Sequence[KafkaError | None]:
    return cluster.take(cluster.controller.alter_reassignments(wanted, allow_replication_factor_change=allow))


def in_sync(cluster: Cluster, *isr: int, index: int = 0) -> PartitionImage | KafkaError:
    """The leader says so."""
    topic = cluster.image.topics_by_name[ORDERS]
    partition = topic.partitions[index]
    epochs = [(one, cluster.image.brokers[one].epoch) for one in isr]
    change = IsrChange(topic.id, index, partition.leader_epoch, partition.partition_epoch, epochs, RECOVERED)
    leader_epoch = cluster.image.brokers[partition.leader].epoch
    return cluster.take(cluster.controller.alter_partitions(partition.leader, leader_epoch, [change]))[0]


def ways(cluster: Cluster) -> dict[str, dict[int, tuple[tuple[int, ...], ...]]]:
    return {
        topic: {index: (one.replicas, one.adding, one.removing) for index, one in partitions}
        for topic, partitions in cluster.controller.list_reassignments(None)
    }


def code_of(error: object) -> ErrorCode:
    assert isinstance(error, KafkaError)
    return error.code


def allow_unclean(cluster: Cluster) -> None:
    change = Change("unclean.leader.election.enable", Operation.SET, "true")
    cluster.take(cluster.controller.change_configs({(RESOURCE_TOPIC, ORDERS): [change]}, validate_only=False))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=6)
    cluster.create(ORDERS, assignments={0: (1, 2, 3), 1: (3, 1, 2)}, configs={"min.insync.replicas": "2"})
    return cluster


class TestProgress:
    def test_replicas_are_added_before_others_are_removed(self, cluster: Cluster) -> None:
        assert move(cluster, 4, 5, 6) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.adding, partition.removing) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
        assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2, 3), 0)
        assert partition.directories == tuple(map(directory_of, (4, 5, 6, 1, 2, 3)))
        assert ways(cluster) == {ORDERS: {0: ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))}}

        assert isinstance(in_sync(cluster, 1, 2, 3, 4, 5), PartitionImage)
        assert cluster.partition(ORDERS).adding == (4, 5, 6)

        # The leader is one of the removed replicas: the response reports that another leader was elected.
        assert code_of(in_sync(cluster, 1, 2, 3, 4, 5, 6)) is ErrorCode.new_leader_elected
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.adding, partition.removing) == ((4, 5, 6), (), ())
        assert (partition.leader, set(partition.isr), partition.leader_epoch) == (4, {4, 5, 6}, 1)
        assert partition.directories == tuple(map(directory_of, (4, 5, 6)))
        assert (partition.elr, partition.last_known_elr) == ((), ())
        assert ways(cluster) == {}

    def test_remaining_leader_starts_a_new_epoch(self, cluster: Cluster) -> None:
        """The new epoch fences the removed replica."""
        move(cluster, 4, 2, 1)
        result = in_sync(cluster, 1, 2, 3, 4)
        assert isinstance(result, PartitionImage)
        assert (result.leader, result.leader_epoch, result.replicas, set(result.isr)) == (1, 1, (4, 2, 1), {1, 2, 4})

    def test_first_live_target_replica_leads(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 4, 5)
        cluster.create("others", assignments={0: (4, 1)})
        cluster.beat(4, want_shutdown=True)
        assert cluster.image.brokers[4].in_controlled_shutdown
        in_sync(cluster, 1, 5, 6)
        assert cluster.partition(ORDERS).adding == (4, 5, 6)
        cluster.beat(4)
        cluster.restart(4, incarnation=2)
        cluster.beat(4)
        in_sync(cluster, 1, 4, 5, 6)
        assert cluster.partition(ORDERS).leader == 4

    def test_reordering_completes_at_once_without_election(self, cluster: Cluster) -> None:
        assert move(cluster, 3, 2, 1) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.leader, partition.leader_epoch) == ((3, 2, 1), 1, 0)
        assert partition.directories == tuple(map(directory_of, (3, 2, 1)))
        assert ways(cluster) == {}
        cluster.take(cluster.controller.balance_leaders())
        assert cluster.partition(ORDERS).leader == 3

    def test_reassignment_to_the_current_replicas_writes_nothing(self, cluster: Cluster) -> None:
        decision = cluster.controller.alter_reassignments(
            [Reassignment(ORDERS, 0, (1, 2, 3))], allow_replication_factor_change=False
        )
        assert (decision.records, list(decision.response)) == ((), [None])

    def test_replicas_are_removed_at_once_if_the_rest_is_in_sync(self, cluster: Cluster) -> None:
        move(cluster, 3, 2)
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, set(partition.isr), partition.removing) == ((3, 2), {2, 3}, ())
        assert (partition.leader, partition.leader_epoch) == (3, 1)

    def test_replicas_are_removed_only_when_the_rest_is_in_sync(self, cluster: Cluster) -> None:
        in_sync(cluster, 1, 3)
        move(cluster, 1, 2)
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.removing) == ((1, 2, 3), (3,))
        in_sync(cluster, 1, 2, 3)
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.removing, set(partition.isr)) == ((1, 2), (), {1, 2})

    def test_replicas_can_be_added(self, cluster: Cluster) -> None:
        move(cluster, 1, 2, 3, 4, 5)
        assert ways(cluster) == {ORDERS: {0: ((1, 2, 3, 4, 5), (4, 5), ())}}
        in_sync(cluster, 1, 2, 3, 4)
        assert ways(cluster) != {}
        result = in_sync(cluster, 1, 4, 5)
        assert isinstance(result, PartitionImage)
        assert (result.replicas, result.adding, result.leader_epoch) == ((1, 2, 3, 4, 5), (), 0)

    def test_replica_needed_for_min_isr_is_not_removed(self, cluster: Cluster) -> None:
        in_sync(cluster, 1, 2)
        move(cluster, 4, 5, 1)
        in_sync(cluster, 1, 2, 4)
        assert ways(cluster) != {}
        in_sync(cluster, 1, 4, 5)
        assert ways(cluster) == {}
        move(cluster, 6, 4, 5)
        in_sync(cluster, 1, 6)
        assert cluster.partition(ORDERS).replicas == (6, 4, 5, 1)
        assert isinstance(in_sync(cluster, 1, 6, 5), KafkaError)
        assert (cluster.partition(ORDERS).replicas, cluster.partition(ORDERS).leader) == ((6, 4, 5), 6)

    def test_broker_that_dies_during_the_reassignment_stays_eligible(self, cluster: Cluster) -> None:
        move(cluster, 4, 2, 3)
        in_sync(cluster, 1, 4)
        cluster.beat(1, want_fence=True)
        partition = cluster.partition(ORDERS)
        assert (partition.leader, partition.isr, partition.elr) == (4, (4,), (1,))
        assert partition.replicas == (4, 2, 3, 1)
        in_sync(cluster, 4, 2)
        assert (cluster.partition(ORDERS).replicas, cluster.partition(ORDERS).elr) == ((4, 2, 3), ())

    def test_dead_replica_is_removed(self, cluster: Cluster) -> None:
        in_sync(cluster, 1, 3)
        move(cluster, 1, 2)
        cluster.beat(3, want_fence=True)
        assert (cluster.partition(ORDERS).replicas, cluster.partition(ORDERS).elr) == ((1, 2, 3), (3,))
        in_sync(cluster, 1, 2)
        assert (cluster.partition(ORDERS).replicas, cluster.partition(ORDERS).elr) == ((1, 2), ())

    def test_second_reassignment_replaces_the_first(self, cluster: Cluster) -> None:
        move(cluster, 4, 2, 3)
        move(cluster, 5, 2, 3)
        assert ways(cluster) == {ORDERS: {0: ((5, 2, 3, 1, 4), (5,), (1, 4))}}
        in_sync(cluster, 1, 2, 3, 5)
        assert cluster.partition(ORDERS).replicas == (5, 2, 3)
        assert cluster.partition(ORDERS).directories == tuple(map(directory_of, (5, 2, 3)))

    def test_replica_of_the_new_target_stays(self, cluster: Cluster) -> None:
        move(cluster, 4, 2, 3)
        move(cluster, 1, 2, 3, 4)
        assert ways(cluster) == {ORDERS: {0: ((1, 2, 3, 4), (4,), ())}}
        in_sync(cluster, 1, 2, 3, 4)
        assert cluster.partition(ORDERS).replicas == (1, 2, 3, 4)

    def test_offline_partition_does_not_complete_its_reassignment(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create(ORDERS, assignments={0: (1,)})
        cluster.beat(1, want_fence=True)
        assert move(cluster, 2) is None
        partition = cluster.partition(ORDERS)
        assert (partition.leader, partition.replicas, partition.elr) == (NO_LEADER, (2, 1), (1,))
        cluster.beat(1)
        assert cluster.partition(ORDERS).leader == 1
        assert code_of(in_sync(cluster, 1, 2)) is ErrorCode.new_leader_elected
        assert cluster.partition(ORDERS).replicas == (2,)

    def test_reassignment_causes_no_unclean_election(self) -> None:
        cluster = Cluster(brokers=3)
        cluster.create(ORDERS, assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": "false"})
        cluster.beat(2, want_fence=True)
        cluster.beat(1, want_fence=True)
        cluster.beat(2)
        allow_unclean(cluster)
        move(cluster, 3, 2)
        assert cluster.partition(ORDERS).leader == NO_LEADER

    def test_old_metadata_version_writes_no_directories(self) -> None:
        cluster = Cluster(brokers=3, metadata_version=16)
        cluster.create(ORDERS, assignments={0: (1, 2)})
        decision = cluster.controller.alter_reassignments(
            [Reassignment(ORDERS, 0, (3, 2))], allow_replication_factor_change=True
        )
        (record,) = decision.records
        assert isinstance(record, PartitionChangeRecord)
        assert (record.replicas, record.directories) == ((3, 2, 1), None)

    def test_added_replica_on_several_directories_is_unassigned(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.register(3, directories=(UUID(int=9001), UUID(int=9002)))
        cluster.beat(3)
        cluster.create(ORDERS, assignments={0: (1, 2)})
        move(cluster, 1, 3)
        assert cluster.partition(ORDERS).directories == (directory_of(1), None, directory_of(2))


class TestInvalidReassignments:
    @pytest.mark.parametrize(
        ("replicas", "message"),
        [
            ((), "The manual partition assignment includes an empty replica list."),
            ((1, 9), "The manual partition assignment includes broker 9, but no such broker is registered."),
            ((-1,), "The manual partition assignment includes broker -1, but no such broker is registered."),
            ((2, 1, 2), "The manual partition assignment includes the broker 2 more than once."),
        ],
    )
    def test_unknown_or_duplicate_brokers_are_rejected(
        self, cluster: Cluster, replicas: tuple[int, ...], message: str
    ) -> None:
        before = cluster.partition(ORDERS)
        error = move(cluster, *replicas)
        assert code_of(error) is ErrorCode.invalid_replica_assignment
        assert error is not None
        assert error.message == message
        assert cluster.partition(ORDERS) == before

    def test_fenced_broker_is_a_valid_target(self, cluster: Cluster) -> None:
        cluster.beat(4, want_fence=True)
        assert move(cluster, 4, 2, 3) is None

    def test_unknown_partitions_are_rejected(self, cluster: Cluster) -> None:
        errors = alter(cluster, Reassignment("nowhere", 0, (1,)), Reassignment(ORDERS, 7, None))
        assert [code_of(error) for error in errors] == [ErrorCode.unknown_topic_or_partition] * 2
        messages = [error.message for error in errors if error is not None]
        assert messages == ["Unable to find a topic named nowhere.", "Unable to find partition orders:7."]

    def test_replication_factor_change_must_be_allowed(self, cluster: Cluster) -> None:
        for replicas in ((1, 2), (1, 2, 3, 4)):
            error = move(cluster, *replicas, allow_replication_factor_change=False)
            assert code_of(error) is ErrorCode.invalid_replication_factor
            assert error is not None
            assert error.message == f"The replication factor is changed from 3 to {len(replicas)}"
        assert move(cluster, 4, 5, 6, allow_replication_factor_change=False) is None
        error = move(cluster, 4, 5, allow_replication_factor_change=False)
        assert error is not None
        assert error.message == "The replication factor is changed from 3 to 2"

    def test_invalid_reassignment_does_not_fail_the_others(self, cluster: Cluster) -> None:
        errors = alter(cluster, Reassignment(ORDERS, 0, (9,)), Reassignment(ORDERS, 1, (4, 1, 2)))
        assert [error is None for error in errors] == [False, True]
        assert ways(cluster) == {ORDERS: {1: ((4, 1, 2, 3), (4,), (3,))}}

    def test_second_reassignment_in_one_request_sees_the_first(self, cluster: Cluster) -> None:
        wishes = [Reassignment(ORDERS, 0, (4, 2, 3)), Reassignment(ORDERS, 0, None), Reassignment(ORDERS, 0, None)]
        errors = alter(cluster, *wishes)
        assert [None if error is None else error.code for error in errors] == [
            None,
            None,
            ErrorCode.no_reassignment_in_progress,
        ]
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.adding, partition.removing) == ((2, 3, 1), (), ())

    def test_too_many_changes_in_one_request_are_rejected(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("odradek.core.controller.reassignments.RECORDS_MAX", 1)
        errors = alter(cluster, Reassignment(ORDERS, 0, (4, 2, 3)), Reassignment(ORDERS, 1, (4, 1, 2)))
        assert errors[0] is None
        assert code_of(errors[1]) is ErrorCode.unknown_server_error
        assert list(ways(cluster)[ORDERS]) == [0]


class TestCancellation:
    def test_cancellation_needs_a_reassignment_in_progress(self, cluster: Cluster) -> None:
        error = call_off(cluster)
        assert code_of(error) is ErrorCode.no_reassignment_in_progress
        assert error is not None
        assert error.message is None

    def test_cancellation_restores_the_original_replicas(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 2, 3, 4)
        assert call_off(cluster) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.adding, partition.removing) == ((1, 2, 3), (), ())
        assert (partition.leader, set(partition.isr), partition.leader_epoch) == (1, {1, 2, 3}, 1)
        assert partition.directories == tuple(map(directory_of, (1, 2, 3)))

    def test_cancellation_replaces_an_added_leader(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 4)
        cluster.beat(1, want_fence=True)
        cluster.beat(1)
        in_sync(cluster, 4, 1)
        assert cluster.partition(ORDERS).leader == 4
        assert call_off(cluster) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.leader, partition.isr) == ((1, 2, 3), 1, (1,))
        assert (partition.elr, partition.leader_recovery_state) == ((), RECOVERED)

    def test_cancellation_does_not_restore_the_original_order(self, cluster: Cluster) -> None:
        move(cluster, 4, 2, 3)
        call_off(cluster)
        assert cluster.partition(ORDERS).replicas == (2, 3, 1)

    def test_cancellation_fails_if_only_added_replicas_are_in_sync(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 4, 5)
        for broker_id in (1, 2, 3):
            cluster.beat(broker_id, want_fence=True)
        assert set(cluster.partition(ORDERS).isr) == {4, 5}
        before = cluster.partition(ORDERS)
        error = call_off(cluster)
        assert code_of(error) is ErrorCode.invalid_replica_assignment
        assert error is not None
        assert error.message == (
            "Unable to revert partition assignment for orders:0 because it would require an unclean leader election."
        )
        assert cluster.partition(ORDERS) == before

    def test_cancellation_may_elect_uncleanly_if_the_topic_allows_it(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 4, 5)
        for broker_id in (1, 2, 3):
            cluster.beat(broker_id, want_fence=True)
        cluster.beat(2)
        allow_unclean(cluster)
        assert call_off(cluster) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.leader, partition.isr) == ((1, 2, 3), 2, (2,))
        assert partition.leader_recovery_state == RECOVERING

    def test_unclean_cancellation_puts_no_fenced_broker_into_the_isr(self, cluster: Cluster) -> None:
        move(cluster, 4, 5, 6)
        in_sync(cluster, 1, 4, 5)
        for broker_id in (1, 2, 3):
            cluster.beat(broker_id, want_fence=True)
        allow_unclean(cluster)
        assert call_off(cluster) is None
        partition = cluster.partition(ORDERS)
        assert (partition.leader, partition.isr) == (NO_LEADER, ())
        assert set(partition.elr) | set(partition.last_known_elr) <= {1, 2, 3}
        cluster.beat(3)
        assert cluster.partition(ORDERS).leader == 3

    def test_cancellation_without_elr_keeps_the_isr_non_empty(self) -> None:
        cluster = Cluster(brokers=4, metadata_version=22)
        cluster.create(ORDERS, assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": "true"})
        move(cluster, 3, 4)
        in_sync(cluster, 1, 3)
        cluster.beat(1, want_fence=True)
        cluster.beat(2, want_fence=True)
        assert call_off(cluster) is None
        partition = cluster.partition(ORDERS)
        assert (partition.replicas, partition.leader, partition.isr) == ((1, 2), NO_LEADER, (1,))


class TestList:
    def test_reassignments_are_listed_by_topic(self, cluster: Cluster) -> None:
        cluster.create("quiet", assignments={0: (1, 2)})
        move(cluster, 4, 2, 3)
        listed = cluster.controller.list_reassignments
        assert [(name, [index for index, _ in found]) for name, found in listed([(ORDERS, (0, 1, 9))])] == [
            (ORDERS, [0])
        ]
        assert listed([(ORDERS, (1,)), ("quiet", (0,)), ("nowhere", (0,))]) == []
        assert listed([]) == []

    def test_deleted_topic_has_no_reassignments(self, cluster: Cluster) -> None:
        move(cluster, 4, 2, 3)
        cluster.take(cluster.controller.delete_topics([cluster.image.topics_by_name[ORDERS].id]))
        assert ways(cluster) == {}
