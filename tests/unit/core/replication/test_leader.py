"""Leading a partition: what is committed, who is in sync, and what is asked of the controller."""

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
    """Broker 1 leads epoch 5 of a partition; the log ends at 100, and 90 was known to be committed."""

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


def test_it_is_the_lowest_end_of_all_in_sync() -> None:
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


def test_nothing_is_committed_while_an_in_sync_replica_has_not_spoken() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    assert cluster.leader.high_watermark == 90


def test_it_never_falls() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    cluster.fetch(3, 40)
    assert cluster.leader.high_watermark == 100


def test_it_is_never_above_the_own_end() -> None:
    with pytest.raises(AssertionError, match="high watermark 300 is above the log end 100"):
        Cluster(high_watermark=300)
    cluster = Cluster(high_watermark=100)
    # If records count only once they are synced, followers may be ahead of this log.
    cluster.fetch(2, 150)
    cluster.fetch(3, 150)
    assert cluster.leader.high_watermark == 100
    cluster.leader.on_append(150, 0.0)
    assert cluster.leader.high_watermark == 150


def test_a_new_leader_does_not_count_what_it_has_not_synced() -> None:
    cluster = Cluster(synced_end_offset=95)
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    assert cluster.leader.high_watermark == 95
    assert not cluster.leader.is_high_watermark_known
    cluster.leader.on_append(100, 0.0)
    assert cluster.leader.is_high_watermark_known


def test_below_the_minimum_it_stands_still() -> None:
    cluster = Cluster(isr=(1,))
    leader = cluster.leader
    assert leader.under_min_isr
    leader.on_append(110, 0.0)
    assert leader.acks_all_result(110) is None
    assert leader.acks_all_result(90) is ErrorCode.not_enough_replicas_after_append
    cluster.fetch(3, 110)
    assert leader.high_watermark == 90
    # With the one that is about to join there are enough for what is committed already, not for more.
    assert leader.acks_all_result(90) is ErrorCode.none
    assert leader.under_min_isr
    leader.set_min_isr(1, 0.0)
    assert leader.high_watermark == 110
    assert leader.acks_all_result(110) is ErrorCode.none


def test_the_minimum_is_not_more_than_there_are_replicas() -> None:
    cluster = Cluster(isr=(1, 2), replicas=(1, 2), min_isr=3)
    assert not cluster.leader.under_min_isr
    assert cluster.leader.min_isr == 2


def test_clients_hear_offsets_only_once_the_own_epoch_is_reached() -> None:
    cluster = Cluster()
    assert not cluster.leader.is_high_watermark_known
    cluster.fetch(2, 99)
    cluster.fetch(3, 100)
    assert cluster.leader.high_watermark == 99
    assert not cluster.leader.is_high_watermark_known
    cluster.fetch(2, 100)
    assert cluster.leader.is_high_watermark_known


def test_a_leader_alone_knows_at_once() -> None:
    cluster = Cluster(isr=(1,), min_isr=1)
    assert cluster.leader.high_watermark == 100
    assert cluster.leader.is_high_watermark_known


def test_who_is_about_to_join_is_waited_for() -> None:
    cluster = Cluster(isr=(1, 2), min_isr=1)
    cluster.fetch(2, 100)
    cluster.fetch(3, 95)
    assert cluster.leader.high_watermark == 100, "not caught up: it holds nobody back"
    cluster.fetch(3, 100)
    cluster.leader.take_proposal(0.0)
    cluster.leader.on_append(110, 1.0)
    cluster.fetch(2, 110, 1.0)
    assert cluster.leader.high_watermark == 100, "it may already be in sync, for all the leader knows"


def test_who_keeps_up_but_may_not_join_is_not_waited_for() -> None:
    cluster = Cluster(isr=(1, 2), min_isr=1)
    cluster.brokers[3] = replace(cluster.brokers[3], fenced=True)
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    cluster.leader.on_append(110, 0.0)
    cluster.fetch(2, 110)
    assert cluster.leader.high_watermark == 110
    assert cluster.proposed() == []


def test_who_kept_up_is_waited_for_only_so_long() -> None:
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


# Who fetches


def test_a_former_life_of_a_broker_is_not_believed() -> None:
    cluster = Cluster()
    cluster.brokers[2] = Broker(epoch=21)
    with pytest.raises(KafkaError) as refused:
        cluster.fetch(2, 100, broker_epoch=20)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert cluster.leader.followers[2].end_offset == -1


def test_a_new_life_of_a_broker_is_believed_before_the_metadata_tells_of_it() -> None:
    cluster = Cluster()
    cluster.fetch(2, 60, broker_epoch=25)
    assert cluster.leader.followers[2].end_offset == 60
    with pytest.raises(KafkaError):
        cluster.fetch(2, 100, broker_epoch=20)


def test_strangers_are_asked_to_try_again() -> None:
    with pytest.raises(KafkaError) as refused:
        Cluster().fetch(4, 100)
    assert refused.value.code is ErrorCode.unknown_leader_epoch


# Joining


@pytest.mark.parametrize("offset", [0, 89, 90, 99])
def test_nobody_joins_before_the_start_of_the_epoch(offset: int) -> None:
    """The former leader may have committed up to here, though this one knows of less."""
    cluster = Cluster(isr=(1, 2))
    cluster.fetch(3, offset)
    assert cluster.proposed() == []


def test_nobody_joins_before_the_high_watermark() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_append(110, 0.0)
    cluster.fetch(2, 110)
    assert cluster.leader.high_watermark == 110
    cluster.fetch(3, 109)
    assert cluster.proposed() == []
    cluster.fetch(3, 110)
    assert cluster.proposed() == [1, 2, 3]


def test_a_proposal_names_the_lives_it_speaks_of() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.fetch(3, 100)
    proposal = cluster.leader.take_proposal(0.0)
    members = (IsrMember(1, 10), IsrMember(2, -1), IsrMember(3, 30))
    assert proposal == IsrProposal(leader_epoch=5, partition_epoch=7, isr=members)
    assert cluster.leader.take_proposal(0.0) is None, "once"


@pytest.mark.parametrize(
    "broker", [None, Broker(30, fenced=True), Broker(30, in_controlled_shutdown=True), Broker(29), Broker(31)]
)
def test_only_who_lives_and_stays_joins(broker: Broker | None) -> None:
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


def test_two_join_one_after_the_other_without_fetching_again() -> None:
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


def test_who_fell_behind_while_waiting_has_to_come_again() -> None:
    cluster = Cluster(isr=(1,), min_isr=1)
    leader = cluster.leader
    cluster.fetch(2, 100)
    cluster.fetch(3, 100)
    first = leader.take_proposal(0.0)
    assert first is not None
    cluster.brokers[3] = replace(cluster.brokers[3], fenced=True)
    leader.on_proposal_response(first, CommittedIsr(5, 8, (1, 2)), 0.0)
    assert leader.take_proposal(0.0) is None


# Leaving


def test_who_does_not_keep_up_leaves_after_a_while() -> None:
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


def test_who_has_just_joined_gets_the_time_to_reach_the_end() -> None:
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


def test_who_has_everything_stays_however_long_ago_that_was() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100, 1.0)
    cluster.fetch(3, 100, 1.0)
    assert cluster.leader.next_deadline(1.0) is None
    cluster.leader.tick(1000.0)
    assert cluster.proposed(1000.0) == []


def test_under_steady_load_nobody_ever_reaches_the_end_and_nobody_leaves() -> None:
    cluster = Cluster()
    for second in range(1, 60):
        cluster.leader.on_append(100 + second * 10, second)
        for replica in (2, 3):
            cluster.fetch(replica, 100 + (second - 1) * 10, second)
        cluster.leader.tick(second)
    assert cluster.proposed(60.0) == []


def test_a_follower_that_fetches_but_never_catches_up_leaves() -> None:
    cluster = Cluster()
    for second in range(1, 15):
        cluster.leader.on_append(100 + second * 100, second)
        cluster.fetch(2, 100 + second * 100, second)
        cluster.fetch(3, 50 + second, second)
        cluster.leader.tick(second)
    assert cluster.proposed(15.0) == [1, 2]


def test_nobody_counts_as_gone_before_the_controller_says_so() -> None:
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


# The controller's answers


@pytest.mark.parametrize("error", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_a_refusal_leaves_everything_as_it_was(error: ErrorCode) -> None:
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
def test_an_outdated_leader_waits_for_the_metadata_log(error: ErrorCode) -> None:
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
def test_anything_else_is_tried_again_unchanged(error: ErrorCode) -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    proposal = cluster.expand()
    leader.on_proposal_response(proposal, error, 1.0)
    assert leader.take_proposal(1.0) is None
    assert leader.next_deadline(1.0) == 1.0 + RETRY_SECONDS
    assert leader.take_proposal(1.0 + RETRY_SECONDS) is proposal
    assert leader.maximal_isr == (1, 2, 3)


@pytest.mark.parametrize("answer", [CommittedIsr(6, 8, (1, 2, 3)), CommittedIsr(5, 6, (1, 2, 3))])
def test_an_answer_from_another_time_is_ignored(answer: CommittedIsr) -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_proposal_response(cluster.expand(), answer, 0.0)
    assert (cluster.leader.isr, cluster.leader.partition_epoch) == ((1, 2), 7)


def test_an_answer_that_comes_after_the_metadata_is_ignored() -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader
    proposal = cluster.expand()
    leader.on_metadata_change(partition_epoch=9, replicas=(1, 2, 3), isr=(1,), now=0.0)
    leader.on_proposal_response(proposal, CommittedIsr(5, 8, (1, 2, 3)), 0.0)
    assert (leader.isr, leader.partition_epoch) == ((1,), 9)


def test_no_change_at_all_is_an_answer_too() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.leader.on_proposal_response(cluster.expand(), CommittedIsr(5, 7, (1, 2, 3)), 0.0)
    assert cluster.leader.isr == cluster.leader.maximal_isr == (1, 2, 3)


# The metadata log


def test_older_metadata_changes_nothing() -> None:
    cluster = Cluster()
    cluster.leader.on_metadata_change(partition_epoch=6, replicas=(1, 2), isr=(1,), now=0.0)
    assert cluster.leader.isr == (1, 2, 3)
    assert set(cluster.leader.followers) == {2, 3}


def test_metadata_that_is_known_already_does_not_end_what_is_under_way() -> None:
    """Else the new member would not be counted, while the controller already counts on it."""
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


def test_a_replica_that_was_taken_away_ends_its_joining() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.expand()
    cluster.leader.on_metadata_change(partition_epoch=7, replicas=(1, 2), isr=(1, 2), now=0.0)
    assert cluster.leader.maximal_isr == (1, 2)
    assert set(cluster.leader.followers) == {2}


def test_a_new_replica_starts_from_nothing_and_old_ones_keep_what_is_known() -> None:
    cluster = Cluster()
    cluster.fetch(2, 100)
    cluster.leader.on_metadata_change(partition_epoch=8, replicas=(1, 2, 4), isr=(1, 2), now=5.0)
    assert cluster.leader.followers[2].end_offset == 100
    assert cluster.leader.followers[4].end_offset == -1
    assert cluster.leader.high_watermark == 100, "3 holds nothing back any more, 4 not yet"


def test_deleted_everywhere_means_on_all_that_live() -> None:
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
