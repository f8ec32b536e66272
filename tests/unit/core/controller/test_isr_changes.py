from collections.abc import Sequence
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import NO_BROKER_EPOCH, IsrChange
from odradek.core.metadata.directories import LOST
from odradek.core.metadata.image import RECOVERED, RECOVERING, PartitionImage
from odradek.core.metadata.records import PartitionChangeRecord
from tests.unit.core.controller.cluster import Cluster

ORDERS = "orders"


def change_of(cluster: Cluster, *isr: int, index: int = 0, **others: object) -> IsrChange:
    """What the leader would send if it knew all there is to know."""
    partition = cluster.partition(ORDERS, index)
    brokers = cluster.image.brokers
    values: dict[str, object] = {
        "topic_id": cluster.image.topics_by_name[ORDERS].id,
        "partition": index,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": tuple((one, brokers[one].epoch if one in brokers else 0) for one in isr),
        "leader_recovery_state": RECOVERED,
    }
    return IsrChange(**(values | others))  # type: ignore[arg-type]


def propose(cluster: Cluster, broker_id: int, *changes: IsrChange) -> Sequence[PartitionImage | KafkaError]:
    epoch = cluster.image.brokers[broker_id].epoch
    return cluster.take(cluster.controller.alter_partitions(broker_id, epoch, changes))


def code_of(result: PartitionImage | KafkaError) -> ErrorCode:
    assert isinstance(result, KafkaError)
    return result.code


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=4)
    cluster.create(ORDERS, assignments={0: (1, 2, 3), 1: (2, 1, 3)}, configs={"min.insync.replicas": "2"})
    return cluster


class TestValidChanges:
    def test_isr_shrinks_and_expands(self, cluster: Cluster) -> None:
        (result,) = propose(cluster, 1, change_of(cluster, 1, 3))
        assert result == cluster.partition(ORDERS)
        assert isinstance(result, PartitionImage)
        assert (result.isr, result.leader, result.leader_epoch, result.partition_epoch) == ((1, 3), 1, 0, 1)
        (result,) = propose(cluster, 1, change_of(cluster, 1, 3, 2))
        assert isinstance(result, PartitionImage)
        assert (set(result.isr), result.leader_epoch, result.partition_epoch) == ({1, 2, 3}, 0, 2)

    def test_unchanged_isr_writes_no_records(self, cluster: Cluster) -> None:
        decision = cluster.controller.alter_partitions(
            1, cluster.image.brokers[1].epoch, [change_of(cluster, 1, 2, 3), change_of(cluster, 1, 2, 3)]
        )
        assert decision.records == ()
        assert decision.response == [cluster.partition(ORDERS)] * 2

    def test_empty_request_has_no_results(self, cluster: Cluster) -> None:
        assert propose(cluster, 1) == []

    def test_replica_that_leaves_the_isr_below_min_isr_joins_the_elr(self, cluster: Cluster) -> None:
        propose(cluster, 1, change_of(cluster, 1))
        assert (cluster.partition(ORDERS).isr, cluster.partition(ORDERS).elr) == ((1,), (2, 3))
        propose(cluster, 1, change_of(cluster, 1, 3))
        assert (cluster.partition(ORDERS).isr, cluster.partition(ORDERS).elr) == ((1, 3), ())

    def test_requests_without_broker_epochs_are_accepted(self, cluster: Cluster) -> None:
        isr = ((1, NO_BROKER_EPOCH), (2, NO_BROKER_EPOCH))
        (result,) = propose(cluster, 1, change_of(cluster, isr=isr))
        assert isinstance(result, PartitionImage)
        assert result.isr == (1, 2)

    def test_isr_shrink_bumps_the_leader_epoch_before_3_6(self) -> None:
        for metadata_version, epoch in ((11, 1), (12, 0)):
            cluster = Cluster(brokers=3, metadata_version=metadata_version)
            cluster.create(ORDERS, assignments={0: (1, 2, 3)})
            (result,) = propose(cluster, 1, change_of(cluster, 1, 2))
            assert isinstance(result, PartitionImage)
            assert (result.leader, result.leader_epoch) == (1, epoch)

    def test_without_elr_feature_the_elr_stays_empty(self) -> None:
        cluster = Cluster(brokers=3, metadata_version=22)
        cluster.create(ORDERS, assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
        propose(cluster, 1, change_of(cluster, 1))
        assert (cluster.partition(ORDERS).isr, cluster.partition(ORDERS).elr) == ((1,), ())

    def test_results_are_in_the_order_of_the_request(self, cluster: Cluster) -> None:
        results = propose(
            cluster,
            1,
            change_of(cluster, 1, 2, index=1),
            change_of(cluster, 1, 2),
            change_of(cluster, 1, topic_id=UUID(int=9)),
        )
        assert code_of(results[0]) is ErrorCode.invalid_request
        assert results[1] == cluster.partition(ORDERS)
        assert code_of(results[2]) is ErrorCode.unknown_topic_id


class TestInvalidSenders:
    def test_stale_broker_epoch_is_rejected(self, cluster: Cluster) -> None:
        change = change_of(cluster, 1, 2)
        epoch = cluster.image.brokers[1].epoch
        for stale in (epoch - 1, epoch + 1, NO_BROKER_EPOCH):
            with pytest.raises(KafkaError) as raised:
                cluster.controller.alter_partitions(1, stale, [change])
            assert raised.value.code is ErrorCode.stale_broker_epoch
        with pytest.raises(KafkaError) as raised:
            cluster.controller.alter_partitions(9, epoch, [change])
        assert raised.value.code is ErrorCode.stale_broker_epoch

    def test_follower_cannot_change_the_isr(self, cluster: Cluster) -> None:
        (result,) = propose(cluster, 2, change_of(cluster, 1, 2))
        assert code_of(result) is ErrorCode.invalid_request

    def test_stale_leader_epoch_is_rejected(self, cluster: Cluster) -> None:
        change = change_of(cluster, 1)
        cluster.beat(1, want_fence=True)
        assert cluster.partition(ORDERS).leader == 2
        (result,) = propose(cluster, 1, change)
        assert code_of(result) is ErrorCode.fenced_leader_epoch
        cluster.beat(1)
        (result,) = propose(cluster, 1, change)
        assert code_of(result) is ErrorCode.fenced_leader_epoch

    def test_former_leader_of_an_offline_partition_is_rejected(self, cluster: Cluster) -> None:
        cluster.create("alone", assignments={0: (1,)})
        cluster.beat(1, want_shutdown=True)
        alone = cluster.image.topics_by_name["alone"]
        partition = alone.partitions[0]
        assert partition.leader != 1
        change = IsrChange(alone.id, 0, partition.leader_epoch, partition.partition_epoch, ((1, -1),), RECOVERED)
        (result,) = propose(cluster, 1, change)
        assert code_of(result) is ErrorCode.invalid_request

    def test_stale_partition_epoch_is_rejected(self, cluster: Cluster) -> None:
        stale = change_of(cluster, 1, 2, 3)
        propose(cluster, 1, change_of(cluster, 1, 2))
        (result,) = propose(cluster, 1, stale)
        assert code_of(result) is ErrorCode.invalid_update_version
        assert cluster.partition(ORDERS).isr == (1, 2)

    def test_newer_epochs_mean_not_controller(self, cluster: Cluster) -> None:
        for future in ({"leader_epoch": 1}, {"partition_epoch": 1}, {"leader_epoch": 1, "partition_epoch": -1}):
            (result,) = propose(cluster, 1, change_of(cluster, 1, 2, **future))
            assert code_of(result) is ErrorCode.not_controller

    def test_unknown_topic_or_partition_is_rejected(self, cluster: Cluster) -> None:
        unknown_id = change_of(cluster, 1, topic_id=UUID(int=4711))
        no_id = change_of(cluster, 1, topic_id=None)
        unknown_index = change_of(cluster, 1, partition=2)
        negative_index = change_of(cluster, 1, partition=-1)
        codes = [code_of(one) for one in propose(cluster, 1, unknown_id, no_id, unknown_index, negative_index)]
        assert codes == [ErrorCode.unknown_topic_id] * 2 + [ErrorCode.unknown_topic_or_partition] * 2

    def test_topic_id_of_a_deleted_topic_is_rejected(self, cluster: Cluster) -> None:
        change = change_of(cluster, 1, 2)
        cluster.take(cluster.controller.delete_topics([cluster.image.topics_by_name[ORDERS].id]))
        cluster.create(ORDERS, assignments={0: (1, 2, 3)})
        (result,) = propose(cluster, 1, change)
        assert code_of(result) is ErrorCode.unknown_topic_id

    def test_second_change_of_a_partition_in_one_request_is_stale(self, cluster: Cluster) -> None:
        first, second = propose(cluster, 1, change_of(cluster, 1, 2), change_of(cluster, 1, 3))
        assert first == cluster.partition(ORDERS)
        assert code_of(second) is ErrorCode.invalid_update_version
        assert cluster.partition(ORDERS).isr == (1, 2)


class TestInvalidMembers:
    @pytest.mark.parametrize("isr", [(), (2, 3), (1, 4), (1, 1), (1, 2, 2), (1, -1), (1, 99)])
    def test_invalid_isr_is_rejected(self, cluster: Cluster, isr: tuple[int, ...]) -> None:
        (result,) = propose(cluster, 1, change_of(cluster, *isr))
        assert code_of(result) is ErrorCode.invalid_request
        assert cluster.partition(ORDERS).isr == (1, 2, 3)

    def test_fenced_broker_cannot_join_the_isr(self, cluster: Cluster) -> None:
        cluster.beat(3, want_fence=True)
        (result,) = propose(cluster, 1, change_of(cluster, 1, 2, 3))
        assert code_of(result) is ErrorCode.ineligible_replica
        cluster.beat(3)
        (result,) = propose(cluster, 1, change_of(cluster, 1, 2, 3))
        assert result == cluster.partition(ORDERS)

    def test_broker_in_controlled_shutdown_cannot_join_the_isr(self, cluster: Cluster) -> None:
        cluster.create("other", assignments={0: (3, 1)})
        cluster.beat(3, want_shutdown=True)
        assert cluster.image.brokers[3].in_controlled_shutdown
        (result,) = propose(cluster, 1, change_of(cluster, 1, 2, 3))
        assert code_of(result) is ErrorCode.ineligible_replica

    def test_unregistered_broker_cannot_join_the_isr(self, cluster: Cluster) -> None:
        cluster.take(cluster.controller.unregister_broker(3))
        (result,) = propose(cluster, 1, change_of(cluster, 1, 2, isr=((1, NO_BROKER_EPOCH), (3, NO_BROKER_EPOCH))))
        assert code_of(result) is ErrorCode.ineligible_replica

    def test_stale_broker_epoch_cannot_join_the_isr(self, cluster: Cluster) -> None:
        """The one that came in its place may have lost what the leader thinks it has."""
        seen = change_of(cluster, 1, 2, 3)
        cluster.restart(3, incarnation=2)
        cluster.beat(3)
        assert cluster.partition(ORDERS).isr == (1, 2)
        stale = change_of(cluster, isr=seen.isr)
        (result,) = propose(cluster, 1, stale)
        assert code_of(result) is ErrorCode.ineligible_replica
        assert cluster.partition(ORDERS).isr == (1, 2)
        (result,) = propose(cluster, 1, change_of(cluster, 1, 2, 3))
        assert result == cluster.partition(ORDERS)


class TestRecovery:
    @pytest.fixture
    def recovering(self) -> Cluster:
        cluster = Cluster(brokers=3)
        cluster.create(ORDERS, assignments={0: (1, 2, 3)}, configs={"unclean.leader.election.enable": "true"})
        for broker_id in (1, 2, 3):
            cluster.beat(broker_id, want_fence=True)
        cluster.beat(1)
        partition = cluster.partition(ORDERS)
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), RECOVERING)
        cluster.beat(2)
        return cluster

    def test_leader_reports_the_end_of_its_recovery(self, recovering: Cluster) -> None:
        (result,) = propose(recovering, 1, change_of(recovering, 1))
        assert isinstance(result, PartitionImage)
        assert result.leader_recovery_state == RECOVERED

    def test_recovered_leader_may_expand_the_isr_at_once(self, recovering: Cluster) -> None:
        (result,) = propose(recovering, 1, change_of(recovering, 1, 2))
        assert isinstance(result, PartitionImage)
        assert (result.leader_recovery_state, result.isr) == (RECOVERED, (1, 2))

    def test_recovering_leader_cannot_expand_the_isr(self, recovering: Cluster) -> None:
        (result,) = propose(recovering, 1, change_of(recovering, 1, 2, leader_recovery_state=RECOVERING))
        assert code_of(result) is ErrorCode.invalid_request
        (result,) = propose(recovering, 1, change_of(recovering, 1, leader_recovery_state=RECOVERING))
        assert result == recovering.partition(ORDERS)

    def test_recovered_leader_cannot_return_to_recovery(self, cluster: Cluster) -> None:
        (result,) = propose(cluster, 1, change_of(cluster, 1, leader_recovery_state=RECOVERING))
        assert code_of(result) is ErrorCode.invalid_request

    def test_unknown_recovery_state_is_rejected(self, cluster: Cluster) -> None:
        for state in (-1, 2, 127):
            (result,) = propose(cluster, 1, change_of(cluster, 1, leader_recovery_state=state))
            assert code_of(result) is ErrorCode.invalid_request


def test_leader_in_an_offline_directory_is_replaced(cluster: Cluster) -> None:
    lost = PartitionChangeRecord(
        partition_id=0,
        topic_id=cluster.image.topics_by_name[ORDERS].id,
        directories=(LOST, *cluster.partition(ORDERS).directories[1:]),
    )
    cluster.replay((lost,))
    decision = cluster.controller.alter_partitions(1, cluster.image.brokers[1].epoch, [change_of(cluster, 1, 2)])
    assert code_of(decision.response[0]) is ErrorCode.new_leader_elected
    (record,) = decision.records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader, record.isr) == (2, (1, 2))


def test_replica_in_an_offline_directory_cannot_join_the_isr(cluster: Cluster) -> None:
    of_third = next(place for place, one in enumerate(cluster.partition(ORDERS).replicas) if one == 3)
    directories = list(cluster.partition(ORDERS).directories)
    directories[of_third] = LOST
    cluster.replay(
        (
            PartitionChangeRecord(
                partition_id=0,
                topic_id=cluster.image.topics_by_name[ORDERS].id,
                isr=(1, 2),
                directories=tuple(directories),
            ),
        )
    )
    decision = cluster.controller.alter_partitions(1, cluster.image.brokers[1].epoch, [change_of(cluster, 1, 2, 3)])
    assert code_of(decision.response[0]) is ErrorCode.ineligible_replica
    assert not decision.records
