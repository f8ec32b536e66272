"""One partition's bookkeeping while this broker leads it: followers, in-sync replicas, high watermark.

The controller alone decides who is in sync. The leader proposes, one change at a time, and until it knows the outcome
it counts with the larger set: waiting for one replica too many is safe, for one too few is not.

It must not know the log, requests or other partitions. Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH, CommittedIsr, IsrMember, IsrProposal
from odradek.core.replication.progress import NEVER, FollowerProgress

RETRY_SECONDS: Final = 0.05

# Certainly not done, now or later: the set is what it was.
_REFUSED: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
# Done or not, the metadata log knows better than this leader, and is about to tell it.
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
class _Pending:
    """The one change that is under way."""

    proposal: IsrProposal
    added: int | None
    is_taken: bool = False
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
        high_watermark: int,
        lag_max_seconds: float,
        brokers: Callable[[int], RegisteredBroker | None],
        now: float,
    ) -> None:
        """The log ends at `epoch_start_offset` now, and counts up to `log_end_offset`: see `appended`. `brokers` looks
        into the newest cluster image."""
        self.broker_id: Final = broker_id
        self.leader_epoch: Final = leader_epoch
        self.epoch_start_offset: Final = epoch_start_offset
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        """As committed by the controller."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(high_watermark, epoch_start_offset)
        self.lag_max_seconds = lag_max_seconds
        self.followers: dict[int, FollowerProgress] = {}
        self._min_isr = min_isr
        self._brokers: Final = brokers
        self._pending: _Pending | None = None
        for replica in replicas:
            if replica != broker_id:
                self.followers[replica] = FollowerProgress(replica, now if replica in self.isr else NEVER)
        self._advance(now)

    # What others may know

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed in-sync replicas, and the one that may already be among them."""
        pending = self._pending
        return self.isr if pending is None or pending.added is None else (*self.isr, pending.added)

    @property
    def min_isr(self) -> int:
        """Never more than there are replicas."""
        return min(self._min_isr, len(self.followers) + 1)

    @property
    def under_min_isr(self) -> bool:
        """acks=all is refused, and the high watermark stands still."""
        return len(self.isr) < self.min_isr

    @property
    def may_tell_offsets(self) -> bool:
        """Whether the high watermark is known for sure: it is not lower than what the former leader has told."""
        return self.high_watermark >= self.epoch_start_offset

    def acknowledgement(self, end_offset: int) -> ErrorCode | None:
        """What a producer with acks=all hears of its records below `end_offset`. None: nothing yet."""
        if self.high_watermark < end_offset:
            return None
        is_enough = len(self.maximal_isr) >= self.min_isr
        return ErrorCode.none if is_enough else ErrorCode.not_enough_replicas_after_append

    def low_watermark(self, log_start_offset: int) -> int:
        """Below it the records are deleted on every replica that lives, this one's log starting where it says."""
        lowest = log_start_offset
        for follower in self.followers.values():
            broker = self._brokers(follower.broker_id)
            if broker is not None and not broker.fenced:
                lowest = min(lowest, follower.log_start_offset)
        return lowest

    # What happens. Each returns whether the high watermark has moved.

    def appended(self, log_end_offset: int, now: float) -> bool:
        """The own log counts up to here: as it is written, or as it is synced where a topic asks for that."""
        self.log_end_offset = log_end_offset
        return self._advance(now)

    def check_follower(self, replica_id: int, broker_epoch: int) -> None:
        """Raises what a Fetch hears that comes from no replica, or from a former life of one."""
        follower = self.followers.get(replica_id)
        if follower is None:
            # Its metadata may be ahead of the leader's: it tries again.
            raise KafkaError(ErrorCode.unknown_leader_epoch, f"{replica_id} is not a replica")
        broker = self._brokers(replica_id)
        newest = max(
            UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch,
            UNKNOWN_BROKER_EPOCH if follower.broker_epoch is None else follower.broker_epoch,
        )
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < newest:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"broker epoch {broker_epoch} is older than {newest}")

    def fetched(self, replica_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, now: float) -> bool:
        """A follower asks for what begins at `fetch_offset`, and so has everything before it.

        Only for a Fetch that was found to agree with the own log: of a diverging one, or one out of range, nothing
        follows.
        """
        self.check_follower(replica_id, broker_epoch)
        follower = self.followers[replica_id]
        former_end_offset = follower.end_offset
        follower.fetched(broker_epoch, fetch_offset, log_start_offset, self.log_end_offset, now)
        if replica_id not in self.isr:
            self._admit(follower)
        return fetch_offset != former_end_offset and self._advance(now)

    def fetched_again(self, replica_id: int, now: float) -> None:
        """A follower asks for what it asked for the last time, which is what comes after the end."""
        follower = self.followers[replica_id]
        follower.last_fetch = follower.last_caught_up = now

    def tick(self, now: float) -> bool:
        """Time has passed: who has not kept up is to leave the in-sync replicas."""
        if self._pending is None:
            lagging = [
                replica
                for replica in self.isr
                if replica != self.broker_id
                and not self.followers[replica].is_caught_up(self.log_end_offset, now, self.lag_max_seconds)
            ]
            if lagging:
                self._propose(tuple(one for one in self.isr if one not in lagging), added=None)
        return self._advance(now)

    def changed(self, *, partition_epoch: int, replicas: Iterable[int], isr: Iterable[int], now: float) -> bool:
        """The metadata log tells of this partition, in the same leader epoch."""
        if partition_epoch < self.partition_epoch:
            return False
        others = [replica for replica in replicas if replica != self.broker_id]
        self.followers = {one: self.followers.get(one) or FollowerProgress(one, NEVER) for one in others}
        if partition_epoch > self.partition_epoch:
            return self._commit(partition_epoch, isr, now)
        # The in-sync replicas are known from the controller's answer. A change proposed since then is still under way,
        # unless it is of a replica that there is no more: the controller never agrees to that.
        if self._pending is not None and self._pending.added is not None and self._pending.added not in self.followers:
            self._pending = None
        return self._advance(now)

    def set_min_isr(self, min_isr: int, now: float) -> bool:
        self._min_isr = min_isr
        return self._advance(now)

    # Changing the in-sync replicas

    @property
    def has_proposal(self) -> bool:
        """Whether `take_proposal` has something to give, now or before long."""
        return self._pending is not None and not self._pending.is_taken

    def take_proposal(self, now: float) -> IsrProposal | None:
        """What has to be sent to the controller now; its answer goes to `proposal_answered`, whenever it comes."""
        pending = self._pending
        if pending is None or pending.is_taken or now < pending.retry_at:
            return None
        pending.is_taken = True
        return pending.proposal

    def proposal_answered(self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode, now: float) -> bool:
        """Returns whether the high watermark has moved. An error that says nothing of the outcome (no controller, no
        connection) brings the same proposal again."""
        pending = self._pending
        if pending is None or pending.proposal is not proposal:
            # The metadata log was quicker.
            return False
        if isinstance(answer, CommittedIsr):
            if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
                return False
            return self._commit(answer.partition_epoch, answer.isr, now)
        if answer in _REFUSED:
            self._pending = None
            return self._advance(now)
        if answer not in _OUTDATED:
            pending.is_taken = False
            pending.retry_at = now + RETRY_SECONDS
        return False

    def next_deadline(self, now: float) -> float | None:
        """When `tick` and `take_proposal` have something to do, should nothing else happen before."""
        pending = self._pending
        deadlines = []
        if pending is not None and not pending.is_taken:
            deadlines.append(pending.retry_at)
        for follower in self.followers.values():
            if follower.end_offset < self.log_end_offset:
                out_of_sync_at = follower.last_caught_up + self.lag_max_seconds
                is_to_leave = pending is None and follower.broker_id in self.isr
                if is_to_leave or out_of_sync_at > now:
                    deadlines.append(out_of_sync_at)
        return min(deadlines, default=None)

    def _admit(self, follower: FollowerProgress) -> None:
        """Whoever reached the high watermark and the own epoch has all that was ever committed.

        The epoch's start matters because a new leader's high watermark may be behind that of the former one.
        """
        is_in_sync = follower.end_offset >= self.high_watermark and follower.end_offset >= self.epoch_start_offset
        if not is_in_sync or not self._is_eligible(follower):
            follower.awaits_admission = False
        elif self._pending is not None:
            follower.awaits_admission = follower.broker_id != self._pending.added
        else:
            follower.awaits_admission = False
            self._propose((*self.isr, follower.broker_id), added=follower.broker_id)

    def _is_eligible(self, follower: FollowerProgress) -> bool:
        """Registered, not leaving, and it is its present life that has fetched."""
        broker = self._brokers(follower.broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return follower.broker_epoch in (broker.epoch, UNKNOWN_BROKER_EPOCH)

    def _propose(self, isr: tuple[int, ...], *, added: int | None) -> None:
        members = tuple(IsrMember(replica, self._broker_epoch_of(replica)) for replica in isr)
        self._pending = _Pending(IsrProposal(self.leader_epoch, self.partition_epoch, members), added)

    def _broker_epoch_of(self, replica: int) -> int:
        """The own one as registered, others' as they fetched: what is proposed holds for that life only."""
        if replica == self.broker_id:
            broker = self._brokers(replica)
            return UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch
        broker_epoch = self.followers[replica].broker_epoch
        return UNKNOWN_BROKER_EPOCH if broker_epoch is None else broker_epoch

    def _commit(self, partition_epoch: int, isr: Iterable[int], now: float) -> bool:
        former_isr = self.isr
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self._pending = None
        for follower in self.followers.values():
            if follower.broker_id in self.isr:
                follower.awaits_admission = False
                if follower.broker_id not in former_isr:
                    # It reached the high watermark, which may be far from the end: it gets the time to go there.
                    follower.last_caught_up = max(follower.last_caught_up, now)
            elif follower.awaits_admission:
                self._admit(follower)
        return self._advance(now)

    # The high watermark

    def _advance(self, now: float) -> bool:
        """To the lowest end of all that are in sync, or soon will be: without these, a replica that is catching up
        would chase a high watermark that runs away from it."""
        if self.under_min_isr:
            return False
        lowest = self.log_end_offset
        maximal_isr = self.maximal_isr
        for follower in self.followers.values():
            if follower.end_offset < lowest and (follower.broker_id in maximal_isr or self._is_joining(follower, now)):
                lowest = follower.end_offset
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def _is_joining(self, follower: FollowerProgress, now: float) -> bool:
        return follower.is_caught_up(self.log_end_offset, now, self.lag_max_seconds) and self._is_eligible(follower)
