"""The replication state of a partition while this broker leads it: followers, ISR, high watermark.

Only the controller changes the ISR. The leader proposes one change at a time, and until it knows the outcome it counts
the larger set: waiting for a replica too many is safe, waiting for one too few is not.

It must not know the log, requests or other partitions. Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication.follower_progress import NEVER, FollowerProgress
from odradek.core.replication.high_watermark import UNKNOWN_BYTES, HighWatermark
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH, CommittedIsr, IsrMember, IsrProposal

RETRY_SECONDS: Final = 0.05

# The controller did not and will not apply the proposal: the ISR is unchanged.
_REJECTED: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
# The proposal may or may not be applied: metadata that is newer than this leader's is on its way.
_OUTDATED: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_request,
        ErrorCode.invalid_update_version,
        ErrorCode.new_leader_elected,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)


class RegisteredBroker(Protocol):
    @property
    def epoch(self) -> int: ...

    @property
    def fenced(self) -> bool: ...

    @property
    def in_controlled_shutdown(self) -> bool: ...


@dataclass(slots=True, eq=False)
class _PendingChange:
    """The one ISR change whose outcome is not known yet."""

    proposal: IsrProposal
    added: int | None
    is_sent: bool = False
    retry_at: float = NEVER


class LeaderState:
    def __init__(
        self,
        *,
        broker_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        min_isr: int,
        epoch_start_offset: int,
        log_end_offset: int,
        high_watermark: HighWatermark,
        lag_max_seconds: float,
        brokers: Callable[[int], RegisteredBroker | None],
        now: float,
    ) -> None:
        """`epoch_start_offset` is the end of the log now; `log_end_offset` is the part of it that counts, see
        `on_append`. `brokers` reads the newest metadata image.

        The constructor leaves the high watermark alone: the partition calls `advance_high_watermark` once it leads.
        """
        self.broker_id: Final = broker_id
        self.leader_epoch: Final = leader_epoch
        self.epoch_start_offset: Final = epoch_start_offset
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        """As committed by the controller."""
        self.log_end_offset = log_end_offset
        self.lag_max_seconds = lag_max_seconds
        self.followers: dict[int, FollowerProgress] = {}
        self.shared_high_watermark: Final = high_watermark
        self._min_isr = min_isr
        self._brokers: Final = brokers
        self._pending: _PendingChange | None = None
        for replica in replicas:
            if replica != broker_id:
                self.followers[replica] = FollowerProgress(replica, now if replica in self.isr else NEVER)
        assert leader_epoch >= 0, f"leader epoch {leader_epoch} is negative"
        assert high_watermark.offset <= epoch_start_offset, (
            f"high watermark {high_watermark.offset} is above the log end {epoch_start_offset}"
        )
        self._assert_isr_within_replicas()

    # State that other code reads

    @property
    def high_watermark(self) -> int:
        return self.shared_high_watermark.offset

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the replica that a pending change may already have added."""
        pending = self._pending
        return self.isr if pending is None or pending.added is None else (*self.isr, pending.added)

    @property
    def min_isr(self) -> int:
        """At most the number of replicas."""
        return min(self._min_isr, len(self.followers) + 1)

    @property
    def under_min_isr(self) -> bool:
        """If true, acks=all requests are rejected and the high watermark does not advance."""
        return len(self.isr) < self.min_isr

    @property
    def is_high_watermark_known(self) -> bool:
        """Whether the high watermark is at least as high as the previous leader's."""
        return self.high_watermark >= self.epoch_start_offset

    def acks_all_result(self, end_offset: int) -> ErrorCode | None:
        """The result for a producer with acks=all whose records end at `end_offset`. None: not committed yet."""
        if self.high_watermark < end_offset:
            return None
        is_enough = len(self.maximal_isr) >= self.min_isr
        return ErrorCode.none if is_enough else ErrorCode.not_enough_replicas_after_append

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest log start of all live replicas: below it every live replica has deleted its records."""
        lowest = log_start_offset
        for follower in self.followers.values():
            broker = self._brokers(follower.broker_id)
            if broker is not None and not broker.fenced:
                lowest = min(lowest, follower.log_start_offset)
        return lowest

    # Events. Each advances the high watermark as its last step.

    def on_append(self, log_end_offset: int, now: float, added_bytes: int = UNKNOWN_BYTES) -> None:
        """The leader's log counts up to here: the written end, or the synced end if the topic syncs before it
        acknowledges."""
        assert log_end_offset >= self.log_end_offset, (
            f"the leader's log end decreased from {self.log_end_offset} to {log_end_offset}"
        )
        self.log_end_offset = log_end_offset
        self.advance_high_watermark(now, added_bytes)

    def check_follower(self, replica_id: int, broker_epoch: int) -> None:
        """Raises KafkaError for a Fetch of a broker that is not a replica, or of an earlier incarnation of one."""
        follower = self.followers.get(replica_id)
        if follower is None:
            # The follower's metadata may be newer than the leader's, and then its retry succeeds.
            raise KafkaError(ErrorCode.unknown_leader_epoch, f"{replica_id} is not a replica")
        broker = self._brokers(replica_id)
        newest = max(
            UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch,
            UNKNOWN_BROKER_EPOCH if follower.broker_epoch is None else follower.broker_epoch,
        )
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < newest:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"broker epoch {broker_epoch} is older than {newest}")

    def on_fetch(
        self, replica_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, now: float
    ) -> None:
        """A follower fetches from `fetch_offset`, which acknowledges everything before it.

        The caller must have checked that the follower's log agrees with the leader's: a diverging or out-of-range Fetch
        acknowledges nothing.
        """
        self.check_follower(replica_id, broker_epoch)
        follower = self.followers[replica_id]
        former_end_offset = follower.end_offset
        follower.on_fetch(broker_epoch, fetch_offset, log_start_offset, self.log_end_offset, now)
        if replica_id not in self.isr:
            self._maybe_expand_isr(follower)
        if fetch_offset != former_end_offset:
            self.advance_high_watermark(now)

    def on_repeated_fetch(self, replica_id: int, now: float) -> None:
        """A follower at the end of the log repeats its previous Fetch: only its times change."""
        follower = self.followers[replica_id]
        follower.last_fetch = follower.last_caught_up = now

    def tick(self, now: float) -> None:
        """Proposes an ISR without the replicas that have lagged for too long."""
        if self._pending is None:
            lagging = [
                replica
                for replica in self.isr
                if replica != self.broker_id
                and not self.followers[replica].is_caught_up(self.log_end_offset, now, self.lag_max_seconds)
            ]
            if lagging:
                self._propose(tuple(replica for replica in self.isr if replica not in lagging), added=None)
        self.advance_high_watermark(now)

    def on_metadata_change(
        self, *, partition_epoch: int, replicas: Iterable[int], isr: Iterable[int], now: float
    ) -> None:
        """The metadata log has a newer state of this partition in the same leader epoch."""
        if partition_epoch < self.partition_epoch:
            return
        others = [replica for replica in replicas if replica != self.broker_id]
        self.followers = {one: self.followers.get(one) or FollowerProgress(one, NEVER) for one in others}
        if partition_epoch > self.partition_epoch:
            self._apply_isr(partition_epoch, isr, now)
            return
        # The ISR is known from the controller's response. A change proposed since then is still pending, unless it adds
        # a broker that is no longer a replica: the controller never applies that.
        if self._pending is not None and self._pending.added is not None and self._pending.added not in self.followers:
            self._pending = None
        self.advance_high_watermark(now)

    def set_min_isr(self, min_isr: int, now: float) -> None:
        self._min_isr = min_isr
        self.advance_high_watermark(now)

    # ISR changes

    @property
    def has_proposal(self) -> bool:
        """Whether `take_proposal` returns a proposal, now or after a retry delay."""
        return self._pending is not None and not self._pending.is_sent

    def take_proposal(self, now: float) -> IsrProposal | None:
        """The proposal to send now. Its response goes to `on_proposal_response`."""
        pending = self._pending
        if pending is None or pending.is_sent or now < pending.retry_at:
            return None
        pending.is_sent = True
        return pending.proposal

    def on_proposal_response(self, proposal: IsrProposal, result: CommittedIsr | ErrorCode, now: float) -> None:
        """After an error that does not reveal the outcome (no controller, no connection) the proposal is sent again."""
        pending = self._pending
        if pending is None or pending.proposal is not proposal:
            # The metadata log delivered the outcome first.
            return
        if isinstance(result, CommittedIsr):
            if result.leader_epoch == self.leader_epoch and result.partition_epoch >= self.partition_epoch:
                self._apply_isr(result.partition_epoch, result.isr, now)
        elif result in _REJECTED:
            self._pending = None
            self.advance_high_watermark(now)
        elif result not in _OUTDATED:
            pending.is_sent = False
            pending.retry_at = now + RETRY_SECONDS

    def next_deadline(self, now: float) -> float | None:
        """When `tick` or `take_proposal` next has something to do if no other event happens before."""
        pending = self._pending
        deadlines = []
        if pending is not None and not pending.is_sent:
            deadlines.append(pending.retry_at)
        for follower in self.followers.values():
            if follower.end_offset < self.log_end_offset:
                out_of_sync_at = follower.last_caught_up + self.lag_max_seconds
                should_leave_isr = pending is None and follower.broker_id in self.isr
                if should_leave_isr or out_of_sync_at > now:
                    deadlines.append(out_of_sync_at)
        return min(deadlines, default=None)

    def _maybe_expand_isr(self, follower: FollowerProgress) -> None:
        """A follower that has reached the high watermark and the start of this leader epoch has all committed records.

        The epoch's start matters because a new leader's high watermark may be lower than its predecessor's.
        """
        is_in_sync = follower.end_offset >= self.high_watermark and follower.end_offset >= self.epoch_start_offset
        if not is_in_sync or not self._is_eligible(follower):
            follower.awaits_isr_expansion = False
        elif self._pending is not None:
            follower.awaits_isr_expansion = follower.broker_id != self._pending.added
        else:
            follower.awaits_isr_expansion = False
            self._propose((*self.isr, follower.broker_id), added=follower.broker_id)

    def _is_eligible(self, follower: FollowerProgress) -> bool:
        """Registered, not shutting down, and its current incarnation has fetched."""
        broker = self._brokers(follower.broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return follower.broker_epoch in (broker.epoch, UNKNOWN_BROKER_EPOCH)

    def _propose(self, isr: tuple[int, ...], *, added: int | None) -> None:
        assert self._pending is None, "an ISR change is pending already"
        members = tuple(IsrMember(replica, self._broker_epoch_of(replica)) for replica in isr)
        self._pending = _PendingChange(IsrProposal(self.leader_epoch, self.partition_epoch, members), added)

    def _broker_epoch_of(self, replica: int) -> int:
        """The leader's own registered epoch, or the epoch a follower last fetched with: the proposal is valid for those
        incarnations only."""
        if replica == self.broker_id:
            broker = self._brokers(replica)
            return UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch
        broker_epoch = self.followers[replica].broker_epoch
        return UNKNOWN_BROKER_EPOCH if broker_epoch is None else broker_epoch

    def _apply_isr(self, partition_epoch: int, isr: Iterable[int], now: float) -> None:
        assert partition_epoch >= self.partition_epoch, (
            f"partition epoch decreased from {self.partition_epoch} to {partition_epoch}"
        )
        former_isr = self.isr
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self._assert_isr_within_replicas()
        self._pending = None
        for follower in self.followers.values():
            if follower.broker_id in self.isr:
                follower.awaits_isr_expansion = False
                if follower.broker_id not in former_isr:
                    # It reached the high watermark, which may be far below the log end: it gets time to reach the end.
                    follower.last_caught_up = max(follower.last_caught_up, now)
            elif follower.awaits_isr_expansion:
                self._maybe_expand_isr(follower)
        self.advance_high_watermark(now)

    def _assert_isr_within_replicas(self) -> None:
        assert all(one == self.broker_id or one in self.followers for one in self.isr), (
            f"ISR {self.isr} is not within the replicas {(self.broker_id, *self.followers)}"
        )

    # The high watermark

    def advance_high_watermark(self, now: float, added_bytes: int = UNKNOWN_BYTES) -> None:
        """Advances it to the lowest end of all replicas that are in the ISR or about to join it.

        Without the joining replicas, a follower that catches up would chase a high watermark that moves away from it.
        """
        if self.under_min_isr:
            return
        lowest = self.log_end_offset
        maximal_isr = self.maximal_isr
        for follower in self.followers.values():
            if follower.end_offset < lowest and (follower.broker_id in maximal_isr or self._is_joining(follower, now)):
                lowest = follower.end_offset
        self.shared_high_watermark.advance_to(lowest, added_bytes)

    def _is_joining(self, follower: FollowerProgress, now: float) -> bool:
        return follower.is_caught_up(self.log_end_offset, now, self.lag_max_seconds) and self._is_eligible(follower)
