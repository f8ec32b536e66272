"""The leader state: high watermark, ISR and proposals to the controller."""

from dataclasses import dataclass, replace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication.high_watermark import HighWatermark
from odradek.core.replication.isr import CommittedIsr, IsrMember, IsrProposal
from odradek.core.replication.leader import RETRY_SECONDS, LeaderState

LAG = 10.0


@dataclass(frozen=True, slots=True)
class Broker:
    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


class Cluster:
    """Broker 1 leads epoch 5 of a partition with log end 100 and high watermark 90."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
        min_isr: int = 2,
        high_watermark: int = 90,
        synced_end_offset: int = 100,
    ) -> None:
        self.brokers: dict[int, Broker] = {one: Broker(epoch=one * 10) for one in (1, 2, 3, 4)}
        self.leader = LeaderState(
            broker_id=1,
            leader_epoch=5,
            partition_epoch=7,
            replicas=replicas,
            isr=isr,
            min_isr=min_isr,
            epoch_start_offset=100,
            log_end_offset=synced_end_offset,
            high_watermark=HighWatermark(high_watermark),
            lag_max_seconds=LAG,
            brokers=lambda broker_id: self.brokers.get(broker_id),
            now=0.0,
        )
        self.leader.advance_high_watermark(0.0)

    def fetch(self, replica: int, offset: int, now: float = 0.0, broker_epoch: int | None = None) -> None:
        epoch = self.brokers[replica].epoch if broker_epoch is None else broker_epoch
        self.leader.on_fetch(replica, epoch, offset, 0, now)

    def proposed(self, now: float = 0.0) -> list[int]:
        proposal = self.leader.take_proposal(now)
        return [] if proposal is None else [member.broker_id for member in proposal.isr]

    def expand(self) -> IsrProposal:
        self.fetch(3, 100)
        proposal = self.leader.take_proposal(0.0)
        assert proposal is not None
        return proposal


# The high watermark


def test_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    cluster = Cluster()
    leader = cluster.leader
    leader.on_append(120, 0.0)
    cluster.fetch(2, 110)
    assert leader.high_watermark == 90
    cluster.fetch(3, 105)
    assert leader.high_watermark == 105
    cluster.fetch(3, 105)
    assert leader.high_watermark == 105
    cluster.fetch(3, 120)
    assert leader.high_watermark == 110


def test_high_watermark_waits_for_every_isr_member() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    assert cluster.leader.high_watermark == 90


def test_high_watermark_never_decreases() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    cluster.fetch(3, 40)
    assert cluster.leader.high_watermark == 100


def test_high_watermark_is_at_most_the_leaders_log_end() -> None:
    with pytest.raises(AssertionError, match="high watermark 300 is above the log end 100"):
        Cluster(high_watermark=300)
    cluster = Cluster(high_watermark=100)
    # If records count only once they are synced, followers may be ahead of this log.
    cluster.fetch(2, 150)
    cluster.fetch(3, 150)
    assert cluster.leader.high_watermark == 100
    cluster.leader.on_append(150, 0.0)
    assert cluster.leader.high_watermark == 150


def test_new_leader_does_not_count_unsynced_records() -> None:
    cluster = Cluster(synced_end_offset=95)
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    assert cluster.leader.high_watermark == 95
    assert not cluster.leader.is_high_watermark_known
    cluster.leader.on_append(100, 0.0)
    assert cluster.leader.is_high_watermark_known


def test_high_watermark_does_not_advance_below_min_isr() -> None:
    cluster = Cluster(isr=(1,))
    leader = cluster.leader
    assert leader.under_min_isr
    leader.on_append(110, 0.0)
    assert leader.acks_all_result(110) is None
    assert leader.acks_all_result(90) is ErrorCode.not_enough_replicas_after_append
    cluster.fetch(3, 110)
    assert leader.high_watermark == 90
    # The joining replica counts for acks of committed records, but the high watermark does not advance.
    assert leader.acks_all_result(90) is ErrorCode.none
    assert leader.under_min_isr
    leader.set_min_isr(1, 0.0)
    assert leader.high_watermark == 110
    assert leader.acks_all_result(110) is ErrorCode.none


def test_min_isr_is_at_most_the_replica_count() -> None:
    cluster = Cluster(isr=(1, 2), replicas=(1, 2), min_isr=3)
    assert not cluster.leader.under_min_isr
    assert cluster.leader.min_isr == 2


def test_high_watermark_is_known_once_it_reaches_the_epoch_start() -> None:
    cluster = Cluster()
    assert not cluster.leader.is_high_watermark_known
    cluster.fetch(2, 99)
    cluster.fetch(3, 100)
    assert cluster.leader.high_watermark == 99
    assert not cluster.leader.is_high_watermark_known
    cluster.fetch(2, 100)
    assert cluster.leader.is_high_watermark_known


def test_single_isr_member_knows_the_high_watermark_immediately() -> None:
    cluster = Cluster(isr=(1,), min_isr=1)
    assert cluster.leader.high_watermark == 100
    assert cluster.leader.is_high_watermark_known


def test_high_watermark_waits_for_joining_replicas() -> None:
    cluster = Cluster(isr=(1, 2), min_isr=1)
    cluster.fetch(2, 100)
    cluster.fetch(3, 95)
    assert cluster.leader.high_watermark == 100, (
        "a replica that has not caught up does not hold back the high watermark"
    )
    cluster.fetch(3, 100)
    cluster.leader.take_proposal(0.0)
    cluster.leader.on_append(110, 1.0)
    cluster.fetch(2, 110, 1.0)
    assert cluster.leader.high_watermark == 100, "it may already be in sync, for all the leader knows"


def test_high_watermark_does_not_wait_for_ineligible_replicas() -> None:
    cluster = Cluster(isr=(1, 2), min_isr=1)
    cluster.brokers[3] = replace(cluster.brokers[3], fenced=True)
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    cluster.leader.on_append(110, 0.0)
    cluster.fetch(2, 110)
    assert cluster.leader.high_watermark == 110
    assert cluster.proposed() == []


def test_high_watermark_waits_for_a_former_member_only_for_lag_time() -> None:
    cluster = Cluster(isr=(1,), replicas=(1, 2), min_isr=1)
    leader = cluster.leader
    cluster.fetch(2, 100, 0.0)
    proposal = leader.take_proposal(0.0)
    assert proposal is not None
    leader.on_proposal_response(proposal, ErrorCode.ineligible_replica, 0.0)
    leader.on_append(110, 1.0)
    assert leader.high_watermark == 100
    assert leader.next_deadline(1.0) == LAG
    leader.tick(LAG)
    assert leader.high_watermark == 110
    assert leader.next_deadline(LAG) is None


# Fetches


def test_fetch_of_an_earlier_broker_incarnation_is_rejected() -> None:
    cluster = Cluster()
    cluster.brokers[2] = Broker(epoch=21)
    with pytest.raises(KafkaError) as refused:
        cluster.fetch(2, 100, broker_epoch=20)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert cluster.leader.followers[2].end_offset == -1


def test_fetch_of_a_newer_incarnation_is_accepted_before_the_metadata() -> None:
    cluster = Cluster()
    cluster.fetch(2, 60, broker_epoch=25)
    assert cluster.leader.followers[2].end_offset == 60
    with pytest.raises(KafkaError):
        cluster.fetch(2, 100, broker_epoch=20)


def test_fetch_of_a_non_replica_is_retriable() -> None:
    with pytest.raises(KafkaError) as refused:
        Cluster().fetch(4, 100)
    assert refused.value.code is ErrorCode.unknown_leader_epoch


# Joining the ISR


@pytest.mark.parametrize("offset", [0, 89, 90, 99])
def test_replica_joins_only_after_reaching_the_epoch_start(offset: int) -> None:
    """The former leader may have committed up to here although this leader's high watermark is lower."""
    cluster = Cluster(isr=(1, 2))
    cluster.fetch(3, offset)
    assert cluster.proposed() == []


def test_replica_joins_only_after_reaching_the_high_watermark() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_append(110, 0.0)
    cluster.fetch(2, 110)
    assert cluster.leader.high_watermark == 110
    cluster.fetch(3, 109)
    assert cluster.proposed() == []
    cluster.fetch(3, 110)
    assert cluster.proposed() == [1, 2, 3]


def test_proposal_contains_broker_epochs() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.fetch(3, 100)
    proposal = cluster.leader.take_proposal(0.0)
    members = (IsrMember(1, 10), IsrMember(2, -1), IsrMember(3, 30))
    assert proposal == IsrProposal(leader_epoch=5, partition_epoch=7, isr=members)
    assert cluster.leader.take_proposal(0.0) is None, "once"


@pytest.mark.parametrize(
    "broker", [None, Broker(30, fenced=True), Broker(30, in_controlled_shutdown=True), Broker(29), Broker(31)]
)
def test_fenced_and_stopping_brokers_do_not_join(broker: Broker | None) -> None:
    cluster = Cluster(isr=(1, 2))
    del cluster.brokers[3]
    if broker is not None and broker.epoch <= 30:
        cluster.brokers[3] = broker
    cluster.fetch(3, 100, broker_epoch=30)
    if broker is not None and broker.epoch > 30:
        cluster.brokers[3] = broker
        cluster.fetch(2, 100)
        cluster.leader.on_metadata_change(partition_epoch=8, replicas=(1, 2, 3), isr=(1, 2), now=0.0)
    assert cluster.proposed() == []


def test_two_replicas_join_without_fetching_again() -> None:
    cluster = Cluster(isr=(1,), min_isr=1)
    leader = cluster.leader
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    first = leader.take_proposal(0.0)
    assert first is not None
    assert leader.take_proposal(0.0) is None
    leader.on_proposal_response(first, CommittedIsr(5, 8, (1, 2)), 0.0)
    second = leader.take_proposal(0.0)
    assert second is not None
    assert (second.partition_epoch, [one.broker_id for one in second.isr]) == (8, [1, 2, 3])


def test_replica_that_lags_while_waiting_does_not_join() -> None:
    cluster = Cluster(isr=(1,), min_isr=1)
    leader = cluster.leader
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    first = leader.take_proposal(0.0)
    assert first is not None
    cluster.brokers[3] = replace(cluster.brokers[3], fenced=True)
    leader.on_proposal_response(first, CommittedIsr(5, 8, (1, 2)), 0.0)
    assert leader.take_proposal(0.0) is None


# Leaving the ISR


def test_lagging_replica_leaves_the_isr() -> None:
    cluster = Cluster()
    leader = cluster.leader
    cluster.fetch(2, 100, 1.0)
    cluster.fetch(3, 100, 1.0)
    leader.on_append(110, 2.0)
    cluster.fetch(2, 110, 3.0)
    assert leader.next_deadline(3.0) == 1.0 + LAG
    leader.tick(1.0 + LAG - 0.001)
    assert cluster.proposed(1.0 + LAG) == []
    leader.tick(1.0 + LAG)
    assert cluster.proposed(1.0 + LAG) == [1, 2]


def test_new_isr_member_gets_lag_time_to_reach_the_end() -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    leader.on_append(500, 20.0)
    cluster.fetch(3, 100, 20.0)
    proposal = leader.take_proposal(20.0)
    assert proposal is not None
    leader.on_proposal_response(proposal, CommittedIsr(5, 8, (1, 2, 3)), 21.0)
    cluster.fetch(2, 500, 21.0)
    leader.tick(21.0)
    assert cluster.proposed(21.0) == []
    assert leader.next_deadline(21.0) == 21.0 + LAG


def test_caught_up_replica_stays_in_the_isr_without_fetching() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100, 1.0)
    cluster.fetch(3, 100, 1.0)
    assert cluster.leader.next_deadline(1.0) is None
    cluster.leader.tick(1000.0)
    assert cluster.proposed(1000.0) == []


def test_steady_load_removes_no_replica_from_the_isr() -> None:
    cluster = Cluster()
    for second in range(1, 60):
        cluster.leader.on_append(100 + second * 10, second)
        for replica in (2, 3):
            cluster.fetch(replica, 100 + (second - 1) * 10, second)
        cluster.leader.tick(second)
    assert cluster.proposed(60.0) == []


def test_fetching_replica_that_never_catches_up_leaves_the_isr() -> None:
    cluster = Cluster()
    for second in range(1, 15):
        cluster.leader.on_append(100 + second * 100, second)
        cluster.fetch(2, 100 + second * 100, second)
        cluster.fetch(3, 50 + second, second)
        cluster.leader.tick(second)
    assert cluster.proposed(15.0) == [1, 2]


def test_removed_replica_counts_until_the_controller_commits() -> None:
    cluster = Cluster(min_isr=1)
    leader = cluster.leader
    leader.on_append(110, 0.0)
    cluster.fetch(2, 110, LAG)
    leader.tick(LAG)
    proposal = leader.take_proposal(LAG)
    assert proposal is not None
    leader.on_append(120, LAG)
    cluster.fetch(2, 120, LAG)
    assert leader.high_watermark == 90
    assert leader.maximal_isr == (1, 2, 3)
    leader.on_proposal_response(proposal, CommittedIsr(5, 8, (1, 2)), LAG)
    assert leader.high_watermark == 120


# Responses of the controller


@pytest.mark.parametrize("error", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_rejected_proposal_changes_nothing(error: ErrorCode) -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_proposal_response(cluster.expand(), error, 0.0)
    assert cluster.leader.maximal_isr == (1, 2)
    assert cluster.proposed() == []
    cluster.fetch(3, 100)
    assert cluster.proposed() == [1, 2, 3], "the next Fetch tries again"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_request,
        ErrorCode.invalid_update_version,
        ErrorCode.new_leader_elected,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    ],
)
def test_outdated_leader_waits_for_new_metadata(error: ErrorCode) -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    leader.on_proposal_response(cluster.expand(), error, 0.0)
    assert leader.maximal_isr == (1, 2, 3), "it may have been done at an earlier try"
    assert cluster.proposed(1000.0) == []
    leader.on_metadata_change(partition_epoch=8, replicas=(1, 2, 3), isr=(1, 2), now=0.0)
    assert leader.maximal_isr == (1, 2)
    cluster.fetch(3, 100)
    assert cluster.proposed() == [1, 2, 3]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.not_controller,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
        ErrorCode.stale_broker_epoch,
        ErrorCode.unknown_server_error,
    ],
)
def test_proposal_is_retried_after_other_errors(error: ErrorCode) -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    proposal = cluster.expand()
    leader.on_proposal_response(proposal, error, 1.0)
    assert leader.take_proposal(1.0) is None
    assert leader.next_deadline(1.0) == 1.0 + RETRY_SECONDS
    assert leader.take_proposal(1.0 + RETRY_SECONDS) is proposal
    assert leader.maximal_isr == (1, 2, 3)


@pytest.mark.parametrize("response", [CommittedIsr(6, 8, (1, 2, 3)), CommittedIsr(5, 6, (1, 2, 3))])
def test_response_of_another_epoch_is_ignored(response: CommittedIsr) -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_proposal_response(cluster.expand(), response, 0.0)
    assert (cluster.leader.isr, cluster.leader.partition_epoch) == ((1, 2), 7)


def test_response_after_the_metadata_is_ignored() -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    proposal = cluster.expand()
    leader.on_metadata_change(partition_epoch=9, replicas=(1, 2, 3), isr=(1,), now=0.0)
    leader.on_proposal_response(proposal, CommittedIsr(5, 8, (1, 2, 3)), 0.0)
    assert (leader.isr, leader.partition_epoch) == ((1,), 9)


def test_response_without_change_completes_the_proposal() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_proposal_response(cluster.expand(), CommittedIsr(5, 7, (1, 2, 3)), 0.0)
    assert cluster.leader.isr == cluster.leader.maximal_isr == (1, 2, 3)


# The metadata log


def test_older_metadata_is_ignored() -> None:
    cluster = Cluster()
    cluster.leader.on_metadata_change(partition_epoch=6, replicas=(1, 2), isr=(1,), now=0.0)
    assert cluster.leader.isr == (1, 2, 3)
    assert set(cluster.leader.followers) == {2, 3}


def test_known_metadata_does_not_cancel_a_pending_proposal() -> None:
    """Otherwise the leader would not count a member that the controller has already added."""
    cluster = Cluster(isr=(1,), min_isr=1)
    leader = cluster.leader
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    first = leader.take_proposal(0.0)
    assert first is not None
    leader.on_proposal_response(first, CommittedIsr(5, 8, (1, 2)), 0.0)
    assert leader.take_proposal(0.0) is not None
    leader.on_metadata_change(partition_epoch=8, replicas=(1, 2, 3), isr=(1, 2), now=0.0)
    assert leader.maximal_isr == (1, 2, 3)


def test_removed_replica_cancels_its_pending_proposal() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.expand()
    cluster.leader.on_metadata_change(partition_epoch=7, replicas=(1, 2), isr=(1, 2), now=0.0)
    assert cluster.leader.maximal_isr == (1, 2)
    assert set(cluster.leader.followers) == {2}


def test_new_replica_starts_without_progress() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    cluster.leader.on_metadata_change(partition_epoch=8, replicas=(1, 2, 4), isr=(1, 2), now=5.0)
    assert cluster.leader.followers[2].end_offset == 100
    assert cluster.leader.followers[4].end_offset == -1
    assert cluster.leader.high_watermark == 100, "3 holds nothing back any more, 4 not yet"


def test_low_watermark_counts_live_replicas_only() -> None:
    cluster = Cluster()
    leader = cluster.leader
    assert leader.low_watermark(50) == -1
    leader.on_fetch(2, 20, 100, 40, 0.0)
    leader.on_fetch(3, 30, 100, 30, 0.0)
    assert leader.low_watermark(50) == 30
    cluster.brokers[3] = replace(cluster.brokers[3], fenced=True)
    assert leader.low_watermark(50) == 40
    del cluster.brokers[2]
    assert leader.low_watermark(50) == 50


# Invariants


def test_isr_outside_the_replicas_is_rejected() -> None:
    with pytest.raises(AssertionError, match=r"ISR \(1, 4\) is not within the replicas \(1, 2, 3\)"):
        Cluster(isr=(1, 4))


def test_log_end_of_a_leader_never_decreases() -> None:
    cluster = Cluster()
    with pytest.raises(AssertionError, match="the leader's log end decreased from 100 to 99"):
        cluster.leader.on_append(99, 0.0)
