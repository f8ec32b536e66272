"""Checks invariant 19 from outside: it sees only durable state, messages and the events that hosts receive.

The checker shares no code with the state machine. It identifies a log by the digest of everything up to an offset.
"""

from dataclasses import dataclass, field

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import messages
from odradek.core.raft.batch import Batch
from odradek.core.raft.quorum_state import QuorumState
from odradek.records.control import Voters
from tests.raft.disk import Change, digest_after


class Violation(AssertionError):
    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


VoterIds = frozenset[int]


@dataclass(slots=True)
class Ledger:
    """The log of one disk: epoch and digest at the end of every batch, and the voter sets."""

    voters: list[tuple[int, VoterIds]]
    """Voter sets with the offset of their record. The first one is the initial set."""
    ends: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])

    @property
    def end_offset(self) -> int:
        return self.ends[-1][0]

    def at(self, offset: int) -> tuple[int, int] | None:
        """Returns epoch and digest."""
        return next(((epoch, digest) for end, epoch, digest in reversed(self.ends) if end == offset), None)

    def append(self, batch: Batch) -> None:
        self.ends.append((batch.last_offset + 1, batch.epoch, digest_after(self.ends[-1][2], batch)))
        for offset, message in enumerate(batch.control, batch.base_offset):
            if isinstance(message, Voters):
                self.voters.append((offset, frozenset(voter.voter_id for voter in message.voters)))

    def truncate(self, offset: int) -> list[tuple[int, int, int]]:
        removed = [end for end in self.ends if end[0] > offset]
        self.ends = [end for end in self.ends if end[0] <= offset]
        self.voters = [entry for entry in self.voters if entry[0] < offset]
        return removed

    def begin_at(self, snapshot_id: SnapshotId, digest: int, voter_ids: VoterIds) -> None:
        self.ends = [(snapshot_id.end_offset, snapshot_id.epoch, digest)]
        self.voters = [(snapshot_id.end_offset - 1, voter_ids)]

    def voters_before(self, offset: int) -> VoterIds:
        return [voter_ids for voters_offset, voter_ids in self.voters if voters_offset < offset][-1]

    def copy(self) -> "Ledger":
        return Ledger(list(self.voters), list(self.ends))


@dataclass(slots=True)
class ObservedNode:
    ledger: Ledger
    """The durable log."""
    written: Ledger
    """The written log, durable or not: a voter set applies as soon as it is written."""
    state: QuorumState = field(default_factory=QuorumState)
    applied_high_watermark: int = 0
    """Since the last restart."""
    sent_high_watermark: dict[int, int] = field(default_factory=dict)
    """By the epoch in which it was leader."""
    has_leader_until_ms: int = -1
    """A leader has responded: until this time the node must not help to depose that leader."""
    last_fetch: tuple[int, int] | None = None
    """Correlation ID of the last Fetch request, and the time until which the node waits for the response."""
    led_since: tuple[int, int] = (-1, -1)
    """Epoch, and time of the first record as leader."""
    voters_since: tuple[int, int] = (-1, -1)
    """Offset of the last voter set, and when it was first seen."""
    paused_until_ms: int = -1
    """The node could not check the time while it was paused."""
    fetches: dict[int, int] = field(default_factory=dict)
    """Time of the last Fetch by replica."""
    refused: set[int] = field(default_factory=set)
    """Nodes whose port last refused the connection: the node may consider them dead."""


class Checker:
    def __init__(
        self, node_ids: list[int], voter_ids: VoterIds, *, fetch_timeout_ms: int, request_timeout_ms: int
    ) -> None:
        first = Ledger([(-1, voter_ids)])
        self._nodes = {node_id: ObservedNode(first.copy(), first.copy()) for node_id in node_ids}
        self._fetch_timeout_ms = fetch_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        """The candidate, by voter and epoch."""
        self._pre_votes: dict[tuple[int, int], set[int]] = {}
        """The granting voters, by the requesting replica and its epoch."""
        self._candidacies: set[tuple[int, int]] = set()
        self._configurations: dict[tuple[int, int], VoterIds] = {(-1, 0): voter_ids}
        """Voter sets, by offset and epoch of the record."""
        self.committed: dict[int, tuple[int, int]] = {0: (0, 0)}
        """Epoch and digest, by end offset."""
        self._committed_in: list[tuple[int, int]] = [(0, 0)]
        """Leader epochs in ascending order, each with the committed end offset at that time."""
        self.committed_end = 0

    # Disks

    def on_quorum_state_persisted(self, node: int, state: QuorumState) -> None:
        former = self._nodes[node].state
        if state.leader_epoch < former.leader_epoch:
            raise Violation(
                "epochs never decrease", f"node {node} went from {former.leader_epoch} to {state.leader_epoch}"
            )
        if (state.leader_id, state.leader_epoch) != (former.leader_id, former.leader_epoch):
            self._nodes[node].has_leader_until_ms = -1
        self._nodes[node].state = state

    def on_synced(self, node: int, changes: list[Change]) -> None:
        ledger = self._nodes[node].ledger
        for change in changes:
            if change.truncated_to is not None:
                self._check_truncation(node, ledger.truncate(change.truncated_to))
            for batch in change.appended:
                ledger.append(batch)

    def _check_truncation(self, node: int, removed: list[tuple[int, int, int]]) -> None:
        for end, epoch, digest in removed:
            if self.committed.get(end) == (epoch, digest):
                raise Violation(
                    "committed records are never truncated", f"node {node} truncated the committed record before {end}"
                )

    def on_snapshot_taken(self, node: int, snapshot_id: SnapshotId, digest: int) -> None:
        if self.committed.get(snapshot_id.end_offset) != (snapshot_id.epoch, digest):
            raise Violation("a snapshot equals the log it replaces", f"node {node} took {snapshot_id}")

    def on_snapshot_loaded(self, node: int, snapshot_id: SnapshotId, digest: int, voter_ids: VoterIds) -> None:
        if self.committed.get(snapshot_id.end_offset) != (snapshot_id.epoch, digest):
            raise Violation("a snapshot equals the log it replaces", f"node {node} loaded {snapshot_id}")
        observed = self._nodes[node]
        self._check_truncation(node, [end for end in observed.ledger.ends if end[0] > snapshot_id.end_offset])
        observed.ledger.begin_at(snapshot_id, digest, voter_ids)
        observed.written.begin_at(snapshot_id, digest, voter_ids)

    def on_crash(self, node: int) -> None:
        observed = self._nodes[node]
        observed.applied_high_watermark = 0
        observed.has_leader_until_ms = -1
        observed.last_fetch = None
        observed.refused.clear()

    def on_restart(self, node: int) -> None:
        self._nodes[node].written = self._nodes[node].ledger.copy()

    def on_write(self, node: int, change: Change, leading_epoch: int | None, now_ms: int) -> None:
        if leading_epoch is not None:
            self._check_following(node, leading_epoch, now_ms)
        written = self._nodes[node].written
        if change.truncated_to is not None:
            written.truncate(change.truncated_to)
        for batch in change.appended:
            known = len(written.voters)
            written.append(batch)
            for before, after in zip(written.voters[known - 1 :], written.voters[known:], strict=False):
                if (after[0], batch.epoch) not in self._configurations:
                    self._check_voters(batch.epoch, before, after)
                    self._configurations[after[0], batch.epoch] = after[1]

    def _check_following(self, node: int, epoch: int, now_ms: int) -> None:
        observed = self._nodes[node]
        if observed.led_since[0] != epoch:
            observed.led_since = (epoch, now_ms)
            observed.fetches.clear()
        offset, voters = observed.written.voters[-1]
        if offset != observed.voters_since[0]:
            # The current voters may not have been voters when the leader last checked.
            observed.voters_since = (offset, now_ms)
        times = sorted((now_ms if voter == node else observed.fetches.get(voter, -1) for voter in voters), reverse=True)
        followed_ms = max(
            observed.led_since[1], observed.voters_since[1], observed.paused_until_ms, times[len(voters) // 2]
        )
        if now_ms - followed_ms > 3 * self._fetch_timeout_ms:
            raise Violation("a leader without a majority resigns", f"node {node} keeps writing in epoch {epoch}")

    def _check_voters(self, epoch: int, before: tuple[int, VoterIds], after: tuple[int, VoterIds]) -> None:
        if before[1] != after[1] and epoch not in [one for one, _ in self._committed_in]:
            raise Violation("one voter change at a time", f"epoch {epoch} has not committed anything yet")
        if before[0] >= self.committed_end:
            raise Violation("one voter change at a time", f"one at {after[0]} follows one at {before[0]}")
        if len(before[1] ^ after[1]) > 1:
            raise Violation("one voter change at a time", f"{sorted(before[1])} became {sorted(after[1])}")

    # Messages sent
    def on_message_sent(
        self,
        node: int,
        message: messages.Request | messages.Response,
        *,
        request: messages.Request | None,
        correlation_id: int,
        now_ms: int,
    ) -> None:
        """`request` is the request that a response belongs to."""
        match message:
            case messages.VoteRequest():
                self._check_sent_epoch(node, message.replica_epoch)
                self._check_vote_request(node, message)
            case messages.VoteResponse() if isinstance(request, messages.VoteRequest) and message.vote_granted:
                self._check_granted_vote(node, request, now_ms)
            case messages.BeginQuorumEpochRequest() | messages.EndQuorumEpochRequest():
                self._check_sent_epoch(node, message.leader_epoch)
                self._check_one_leader(message.leader_id, message.leader_epoch)
                self._check_leader_log(node, message.leader_epoch)
            case messages.FetchRequest():
                self._check_sent_epoch(node, message.current_leader_epoch)
                self._check_fetch(node, message)
                # A Fetch that only looks for the leader has a shorter timeout.
                timeout_ms = self._fetch_timeout_ms // 8 if message.max_wait_ms == 0 else self._request_timeout_ms
                self._nodes[node].last_fetch = (correlation_id, now_ms + timeout_ms)
            case messages.FetchResponse() if message.high_watermark >= 0:
                self._check_sent_high_watermark(node, message.leader_epoch, message.high_watermark)
        if isinstance(message, messages.LeaderNaming) and message.leader_epoch >= 0:
            self._check_sent_epoch(node, message.leader_epoch)
            if message.leader_id >= 0:
                self._check_one_leader(message.leader_id, message.leader_epoch)

    def _check_sent_epoch(self, node: int, epoch: int) -> None:
        durable = self._nodes[node].state.leader_epoch
        if epoch != durable:
            raise Violation("an epoch is synced before it is sent", f"node {node} sent {epoch}, its disk has {durable}")

    def _check_one_leader(self, leader_id: int, epoch: int) -> None:
        if self._leaders.setdefault(epoch, leader_id) != leader_id:
            raise Violation("one leader per epoch", f"{leader_id} and {self._leaders[epoch]} in epoch {epoch}")

    def _check_leader_log(self, node: int, epoch: int) -> None:
        """A leader's disk has everything that was committed before its epoch."""
        end = max(end for batch_epoch, end in self._committed_in if batch_epoch < epoch)
        ledger = self._nodes[node].ledger
        if ledger.at(end) != self.committed[end] and ledger.ends[0][0] < end:
            raise Violation(
                "a leader has all committed records", f"node {node} of epoch {epoch} lacks what ends at {end}"
            )

    def _check_vote_request(self, node: int, request: messages.VoteRequest) -> None:
        ledger = self._nodes[node].ledger
        durable = (ledger.end_offset, ledger.ends[-1][1])
        claimed = (request.last_offset, request.last_offset_epoch)
        if (claimed[1], claimed[0]) > (durable[1], durable[0]):
            raise Violation("a candidate claims only synced records", f"node {node} claims {claimed} and has {durable}")
        if request.pre_vote:
            self._nodes[node].has_leader_until_ms = -1
            self._nodes[node].last_fetch = None
            return
        self._check_vote(node, request.replica_epoch, node)
        if (node, request.replica_epoch) not in self._candidacies:
            self._candidacies.add((node, request.replica_epoch))
            granting = self._pre_votes.get((node, request.replica_epoch - 1), set()) | {node}
            if not any(_is_majority(granting, voter_ids) for voter_ids in self._configurations.values()):
                raise Violation(
                    "no new epoch without a majority of pre-votes", f"node {node} began {request.replica_epoch}"
                )

    def _check_granted_vote(self, node: int, request: messages.VoteRequest, now_ms: int) -> None:
        candidate = request.replica.node_id
        if not request.pre_vote:
            self._check_vote(node, request.replica_epoch, candidate)
            return
        if now_ms < self._nodes[node].has_leader_until_ms:
            raise Violation("a responsive leader is not deposed", f"node {node} helped {candidate} to depose it")
        self._pre_votes.setdefault((candidate, request.replica_epoch), set()).add(node)

    def _check_vote(self, node: int, epoch: int, candidate: int) -> None:
        if self._votes.setdefault((node, epoch), candidate) != candidate:
            raise Violation("one vote per epoch", f"node {node} in epoch {epoch} for {candidate} too")
        state = self._nodes[node].state
        is_durable = state.leader_epoch == epoch and candidate in (state.voted_id, state.leader_id)
        if not is_durable:
            raise Violation("a vote is synced before it is sent", f"node {node} for {candidate} in epoch {epoch}")

    def _check_fetch(self, node: int, request: messages.FetchRequest) -> None:
        found = self._nodes[node].ledger.at(request.fetch_offset)
        if found is None or found[0] != request.last_fetched_epoch:
            raise Violation("a log is synced before the Fetch that acknowledges it", f"node {node}: {request}")

    # Messages received, where they constrain the receiver
    def on_message_received(
        self, node: int, message: messages.Request | messages.Response, correlation_id: int, now_ms: int
    ) -> None:
        observed = self._nodes[node]
        if isinstance(message, messages.EndQuorumEpochRequest):
            observed.has_leader_until_ms = -1
        if isinstance(message, messages.FetchRequest | messages.FetchSnapshotRequest):
            observed.fetches[message.replica.node_id] = now_ms
        if isinstance(message, messages.FetchResponse) and observed.last_fetch is not None:
            fetch_id, deadline_ms = observed.last_fetch
            if fetch_id != correlation_id:
                return
            # A duplicate of this response finds no pending request.
            observed.last_fetch = None
            is_in_time = now_ms < deadline_ms
            is_from_leader = message.leader_epoch == observed.state.leader_epoch and not message.error
            is_leader_considered_alive = message.leader_id not in observed.refused
            if (
                is_in_time
                and is_from_leader
                and is_leader_considered_alive
                and observed.state.leader_id == message.leader_id >= 0
            ):
                observed.has_leader_until_ms = now_ms + self._fetch_timeout_ms

    def on_pause(self, node: int, until_ms: int) -> None:
        self._nodes[node].paused_until_ms = until_ms

    def on_connection_refused(self, node: int, other: int) -> None:
        self._nodes[node].refused.add(other)
        self._nodes[node].has_leader_until_ms = -1

    def on_connected(self, node: int, other: int) -> None:
        self._nodes[node].refused.discard(other)

    # High watermarks

    def _check_sent_high_watermark(self, node: int, epoch: int, offset: int) -> None:
        sent = self._nodes[node].sent_high_watermark
        if offset < sent.get(epoch, 0):
            raise Violation(
                "the high watermark never decreases", f"leader {node} went back to {offset} in epoch {epoch}"
            )
        sent[epoch] = offset
        if offset not in self.committed:
            self._commit(node, epoch, offset)

    def on_committed(self, node: int, offset: int, digest: int, leading_epoch: int | None) -> None:
        """A host learns that everything before this offset is committed, and applies it."""
        observed = self._nodes[node]
        if offset < observed.applied_high_watermark:
            raise Violation("the high watermark never decreases", f"node {node} reported {offset} to its host")
        observed.applied_high_watermark = offset
        if leading_epoch is not None and offset not in self.committed:
            self._commit(node, leading_epoch, offset)
        if self.committed.get(offset, (0, None))[1] != digest:
            raise Violation(
                "committed records are identical on all nodes", f"node {node} applied other records up to {offset}"
            )

    def _commit(self, node: int, epoch: int, offset: int) -> None:
        if offset < self.committed_end:
            raise Violation(
                "the high watermark never decreases", f"{offset} in epoch {epoch}, after {self.committed_end}"
            )
        holders: dict[tuple[int, int], set[int]] = {}
        for node_id, observed in self._nodes.items():
            found = observed.ledger.at(offset)
            if found is not None:
                holders.setdefault(found, set()).add(node_id)
        for (batch_epoch, _), node_ids in holders.items():
            voter_sets = self._voters_at(self._nodes[min(node_ids)].ledger, epoch, offset)
            if any(_is_majority(node_ids, voter_ids) for voter_ids in voter_sets):
                if batch_epoch != epoch:
                    raise Violation(
                        "only records of the leader's epoch commit by counting", f"{offset} in epoch {epoch}"
                    )
                self._remember(offset, node_ids)
                self._committed_in.append((epoch, offset))
                return
        raise Violation("committed records are on a majority", f"{offset} in epoch {epoch} is on {holders} only")

    def _voters_at(self, ledger: Ledger, epoch: int, offset: int) -> list[VoterIds]:
        """The voter set before the offset, or one that the same leader has written since."""
        since = [
            ids
            for (voters_offset, batch_epoch), ids in self._configurations.items()
            if voters_offset >= offset and batch_epoch == epoch
        ]
        return [ledger.voters_before(offset), *since]

    def _remember(self, offset: int, node_ids: set[int]) -> None:
        for end, epoch, digest in min((self._nodes[one].ledger for one in node_ids), key=lambda one: one.ends[0]).ends:
            if end <= offset and self.committed.setdefault(end, (epoch, digest)) != (epoch, digest):
                raise Violation("committed records are identical on all nodes", f"two logs end at {end}")
        self.committed_end = offset


def _is_majority(node_ids: set[int], voter_ids: VoterIds) -> bool:
    return len(node_ids & voter_ids) > len(voter_ids) // 2
