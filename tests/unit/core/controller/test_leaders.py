from collections.abc import Sequence

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_LEADER
from odradek.config.alteration import Change, Operation
from odradek.core.controller import leaders
from odradek.core.controller.commands import ElectionKind, PartitionElection, TopicElections
from odradek.core.metadata.image import RECOVERED, RECOVERING, RESOURCE_TOPIC
from tests.unit.core.controller.cluster import Cluster

PREFERRED, UNCLEAN = ElectionKind.PREFERRED, ElectionKind.UNCLEAN
ORDERS = "orders"


def elect(
    cluster: Cluster, kind: ElectionKind, topics: Sequence[tuple[str, Sequence[int]]] | None
) -> Sequence[TopicElections]:
    return cluster.take(cluster.controller.elect_leaders(kind, topics))


def elect_one(cluster: Cluster, kind: ElectionKind, index: int = 0) -> KafkaError | None:
    ((_, ((_, error),)),) = elect(cluster, kind, [(ORDERS, (index,))])
    return error


def code_of(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.none if error is None else error.code


def restart(cluster: Cluster, *broker_ids: int) -> None:
    """Fences and unfences the broker: it is in sync again, but not the leader."""
    for broker_id in broker_ids:
        cluster.beat(broker_id, want_fence=True)
        cluster.beat(broker_id)
        cluster.rejoin(ORDERS)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create(ORDERS, assignments={0: (1, 2, 3), 1: (2, 3, 1)}, configs={"min.insync.replicas": "2"})
    return cluster


class TestPreferred:
    def test_preferred_leader_is_elected(self, cluster: Cluster) -> None:
        restart(cluster, 1)
        before = cluster.partition(ORDERS)
        assert before.leader == 2
        assert elect_one(cluster, PREFERRED) is None
        after = cluster.partition(ORDERS)
        assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch + 1, before.isr)
        assert after.leader_recovery_state == RECOVERED

    def test_preferred_leader_that_leads_needs_no_election(self, cluster: Cluster) -> None:
        error = elect_one(cluster, PREFERRED)
        assert code_of(error) is ErrorCode.election_not_needed
        assert error is not None
        assert error.message == "Leader election not needed for topic partition."
        assert cluster.partition(ORDERS).leader_epoch == 0

    def test_fenced_preferred_leader_is_not_elected(self, cluster: Cluster) -> None:
        cluster.beat(1, want_fence=True)
        before = cluster.partition(ORDERS)
        error = elect_one(cluster, PREFERRED)
        assert code_of(error) is ErrorCode.preferred_leader_not_available
        assert error is not None
        assert error.message == "The preferred leader was not available."
        assert cluster.partition(ORDERS) == before

    def test_preferred_leader_outside_the_isr_is_not_elected(self, cluster: Cluster) -> None:
        cluster.beat(1, want_fence=True)
        cluster.beat(1)
        assert cluster.partition(ORDERS).isr == (2, 3)
        assert code_of(elect_one(cluster, PREFERRED)) is ErrorCode.preferred_leader_not_available

    def test_preferred_leader_in_the_elr_is_not_elected_while_the_isr_is_not_empty(self, cluster: Cluster) -> None:
        cluster.beat(3, want_fence=True)
        cluster.beat(1, want_fence=True)
        cluster.beat(1)
        partition = cluster.partition(ORDERS)
        assert (partition.isr, partition.elr) == ((2,), (1,))
        assert code_of(elect_one(cluster, PREFERRED)) is ErrorCode.preferred_leader_not_available

    def test_preferred_leader_in_controlled_shutdown_is_not_elected(self, cluster: Cluster) -> None:
        restart(cluster, 1)
        cluster.create("other", assignments={0: (1,)})
        cluster.beat(1, want_shutdown=True)
        assert cluster.image.brokers[1].in_controlled_shutdown
        assert code_of(elect_one(cluster, PREFERRED)) is ErrorCode.preferred_leader_not_available

    def test_preferred_election_is_never_unclean(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create(ORDERS, assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": "false"})
        cluster.beat(1, want_fence=True)
        cluster.beat(2, want_fence=True)
        cluster.restart(2, incarnation=2)
        cluster.beat(1)
        cluster.beat(2)
        assert cluster.partition(ORDERS).leader == 2  # the last known leader, and only that one
        assert code_of(elect_one(cluster, PREFERRED)) is ErrorCode.preferred_leader_not_available

    def test_unknown_partitions_are_rejected(self, cluster: Cluster) -> None:
        results = elect(cluster, PREFERRED, [("nowhere", (0, 1)), (ORDERS, (2, -1))])
        errors = [(name, one.partition, one.error) for name, elections in results for one in elections]
        assert [(name, index) for name, index, _ in errors] == [
            ("nowhere", 0),
            ("nowhere", 1),
            (ORDERS, 2),
            (ORDERS, -1),
        ]
        assert all(code_of(error) is ErrorCode.unknown_topic_or_partition for _, _, error in errors)
        messages = [error.message for _, _, error in errors if error is not None]
        assert messages[0] == "No such topic as nowhere"
        assert messages[2:] == ["No such partition as orders-2", "No such partition as orders--1"]

    def test_partition_named_twice_is_elected_once(self, cluster: Cluster) -> None:
        restart(cluster, 1)
        epoch = cluster.partition(ORDERS).leader_epoch
        ((_, elections),) = elect(cluster, PREFERRED, [(ORDERS, (0, 0))])
        assert [code_of(one.error) for one in elections] == [ErrorCode.none, ErrorCode.election_not_needed]
        assert cluster.partition(ORDERS).leader_epoch == epoch + 1

    def test_election_of_all_partitions_omits_those_that_need_none(self, cluster: Cluster) -> None:
        cluster.create("quiet", assignments={0: (2, 1)})
        cluster.create("stuck", assignments={0: (3, 2), 1: (2, 3)})
        restart(cluster, 1)
        cluster.beat(3, want_fence=True)
        results = dict(elect(cluster, PREFERRED, None))
        assert results[ORDERS] == [PartitionElection(0, None)]
        assert results["quiet"] == []
        assert [(one.partition, code_of(one.error)) for one in results["stuck"]] == [
            (0, ErrorCode.preferred_leader_not_available)
        ]

    def test_empty_election_has_no_results(self, cluster: Cluster) -> None:
        assert elect(cluster, PREFERRED, []) == []
        assert elect(cluster, PREFERRED, [(ORDERS, ())]) == [TopicElections(ORDERS, [])]

    def test_too_many_elections_in_one_request_are_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = Cluster(brokers=2)
        cluster.create(ORDERS, assignments=dict.fromkeys(range(3), (1, 2)))
        restart(cluster, 1)
        monkeypatch.setattr("odradek.core.controller.bounded_records.RECORDS_MAX", 2)
        for topics in (None, [(ORDERS, (0, 1, 2))]):
            with pytest.raises(KafkaError, match="Unable to perform excessively large batch operation") as raised:
                cluster.controller.elect_leaders(PREFERRED, topics)
            assert raised.value.code is ErrorCode.policy_violation
        assert elect(cluster, PREFERRED, [(ORDERS, (0, 1))])


class TestUnclean:
    @pytest.fixture
    def leaderless(self) -> Cluster:
        """Broker 3 alone was in sync, and died as the last known leader."""
        cluster = Cluster(brokers=3)
        cluster.create(ORDERS, assignments={0: (1, 2, 3)})
        for broker_id in (1, 2, 3):
            cluster.beat(broker_id, want_fence=True)
        cluster.restart(3, incarnation=2)
        cluster.beat(2)
        partition = cluster.partition(ORDERS)
        assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), ())
        assert partition.last_known_elr == (3,)
        return cluster

    def test_unclean_election_elects_the_first_live_replica_in_recovery(self, leaderless: Cluster) -> None:
        assert elect_one(leaderless, UNCLEAN) is None
        partition = leaderless.partition(ORDERS)
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), RECOVERING)
        assert partition.last_known_elr == ()

    def test_unclean_election_keeps_an_existing_leader(self, cluster: Cluster) -> None:
        restart(cluster, 1)
        assert cluster.partition(ORDERS).leader == 2
        assert code_of(elect_one(cluster, UNCLEAN)) is ErrorCode.election_not_needed

    def test_unclean_election_needs_a_live_replica(self, leaderless: Cluster) -> None:
        leaderless.beat(2, want_fence=True)
        error = elect_one(leaderless, UNCLEAN)
        assert code_of(error) is ErrorCode.eligible_leaders_not_available
        assert error is not None
        assert error.message == "Eligible topic partition leaders are not available."

    def test_preferred_election_does_not_elect_an_offline_partition(self, leaderless: Cluster) -> None:
        assert code_of(elect_one(leaderless, PREFERRED)) is ErrorCode.preferred_leader_not_available

    def test_periodic_unclean_election_depends_on_the_topic_config(self, leaderless: Cluster) -> None:
        assert leaderless.take(leaderless.controller.elect_unclean_leaders()) is False
        assert not leaderless.partition(ORDERS).has_leader
        allow = Change("unclean.leader.election.enable", Operation.SET, "true")
        leaderless.take(leaderless.controller.change_configs({(RESOURCE_TOPIC, ORDERS): [allow]}, validate_only=False))
        assert leaderless.take(leaderless.controller.elect_unclean_leaders()) is False
        assert leaderless.partition(ORDERS).leader == 2


class TestBalance:
    def test_balance_returns_all_partitions_to_preferred_leaders(self, cluster: Cluster) -> None:
        restart(cluster, 1, 2)
        restart(cluster, 1)
        led = {index: one.leader for index, one in cluster.image.topics_by_name[ORDERS].partitions.items()}
        assert led != {0: 1, 1: 2}
        assert cluster.take(cluster.controller.balance_leaders()) is False
        led = {index: one.leader for index, one in cluster.image.topics_by_name[ORDERS].partitions.items()}
        assert led == {0: 1, 1: 2}
        assert cluster.controller.balance_leaders().records == ()

    def test_balance_skips_preferred_leaders_outside_the_isr(self, cluster: Cluster) -> None:
        cluster.beat(1, want_fence=True)
        cluster.beat(1)
        result = cluster.controller.balance_leaders()
        assert (result.records, result.response) == ((), False)

    def test_balance_is_limited_per_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leaders, "ELECTIONS_MAX", 2)
        cluster = Cluster(brokers=2)
        cluster.create(ORDERS, assignments=dict.fromkeys(range(5), (1, 2)))
        restart(cluster, 1)
        turns = []
        while True:
            result = cluster.controller.balance_leaders()
            turns.append(len(result.records))
            if not cluster.take(result):
                break
        assert turns == [2, 2, 1]
        assert {one.leader for one in cluster.image.topics_by_name[ORDERS].partitions.values()} == {1}

    def test_impossible_elections_do_not_block_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leaders, "ELECTIONS_MAX", 1)
        cluster = Cluster(brokers=3)
        cluster.create("stuck", assignments=dict.fromkeys(range(3), (3, 2)))
        cluster.create(ORDERS, assignments={0: (1, 2)})
        restart(cluster, 1)
        cluster.beat(3, want_fence=True)
        assert cluster.take(cluster.controller.balance_leaders()) is True
        assert cluster.partition(ORDERS).leader == 1
        assert cluster.take(cluster.controller.balance_leaders()) is False
