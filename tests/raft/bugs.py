"""Bugs planted by name into the state machine or its host. The checker has to find every one of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import committing, dead_leader, election, epochs, events, fetching, membership, snapshots
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.effects import PersistQuorumState
from odradek.core.raft.log_view import LogView
from odradek.core.raft.progress import ReplicationProgress
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.replica import Replica
from odradek.core.raft.requests import Requests
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from tests.raft.disk import digest_after
from tests.raft.world import Host


@dataclass(frozen=True, slots=True)
class Bug:
    patches: tuple[tuple[Any, str, Any], ...] = ()
    host_type: type[Host] = Host


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, value in bug.patches:
            stack.enter_context(patch.object(target, name, value))
        yield


# Bugs in the host
class HostWithoutSync(Host):
    """Does not wait until quorum-state is durable."""

    def persist(self, effect: PersistQuorumState) -> None:
        self._pending_effects.popleft()
        self.later(self.world.random.randrange(self.sync_delay_max_ms), lambda: self._save_quorum_state(effect.state))


class HostWithEarlySnapshots(Host):
    """Includes uncommitted records in its snapshots."""

    def take_snapshot(self) -> None:
        machine = self.machine
        if machine is None or not self.disk.log:
            return
        digest, offset = self.applied_digest, self.applied_offset
        for batch in self.disk.log:
            if batch.base_offset >= offset:
                digest = digest_after(digest, batch)
        snapshot_id = SnapshotId(self.disk.end_offset, self.disk.log[-1].epoch)
        snapshot = self.world.new_snapshot(digest, machine.quorum_at(snapshot_id.end_offset))
        self.world.checker.on_snapshot_taken(self.node_id, snapshot_id, digest)
        self.disk.snapshots[snapshot_id] = snapshot
        self.step(events.SnapshotTaken(snapshot_id, len(snapshot.data)))


# Bugs in the state machine
_choose_first_role = election.choose_first_role
_election_state = Replica._election_state
_truncation_point = LogView.truncation_point
_follow = ReplicationProgress.update_voters


def _forget_vote(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    _choose_first_role(replica, epoch, leader_id, None)


def _resume_leadership(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    if leader_id == replica.identity.node_id:
        leader_id, voted = None, replica.key
    _choose_first_role(replica, epoch, leader_id, voted)


def _skip_epoch_only_states(replica: Replica) -> QuorumState:
    has_vote_or_leader = replica.voted is not None or replica.leader_id is not None
    return _election_state(replica) if has_vote_or_leader else replica._persisted


def _majority_minus_one(progress: ReplicationProgress) -> int | None:
    ends = [one.end_offset for one in progress.voters.values() if one.end_offset is not None]
    needed = max(1, len(progress.voters) // 2)
    return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None


def _majority_with_observers(progress: ReplicationProgress) -> int | None:
    replicas = (*progress.voters.values(), *progress.observers.values())
    ends = [one.end_offset for one in replicas if one.end_offset is not None]
    needed = len(progress.voters) // 2 + 1
    return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None


def _truncate_one_epoch_more(log: LogView, leader_end: OffsetAndEpoch) -> int:
    point = _truncation_point(log, leader_end)
    return max([log.start_offset, *(start.offset for start in log.epochs[1:] if start.offset < point)])


def _start_election_without_pre_vote(replica: Replica) -> None:
    replica.become_prospective()
    replica.become_candidate()
    election._advance(replica)


def _accept_stale_epoch(replica: Replica, node_id: int, epoch: int) -> None:
    return None


def _check_version_only(replica: Replica, leader: Any, verb: str) -> membership.Refusal | None:
    return None if replica.quorum.kraft_version > 0 else (ErrorCode.unsupported_version, verb)


def _check_without_own_commit(replica: Replica, leader: Any, verb: str) -> membership.Refusal | None:
    is_open = leader.change is not None or membership.has_open_change(replica, replica.high_watermark)
    return (ErrorCode.request_timed_out, verb) if is_open else _check_version_only(replica, leader, verb)


def _keep_removed_leader(progress: ReplicationProgress, voters: VoterSet) -> None:
    own = progress.find(progress._own_key)
    _follow(progress, voters)
    if own is not None:
        progress.voters[own.key.node_id] = own


def _return(value: object) -> Callable[..., object]:
    return lambda *_: value


BUGS: dict[str, Bug] = {
    "unsynced vote": Bug(host_type=HostWithoutSync),
    "epoch not persisted": Bug(((Replica, "_election_state", _skip_epoch_only_states),)),
    "vote forgotten in a crash": Bug(((election, "choose_first_role", _forget_vote),)),
    "restarted leader keeps leading": Bug(((election, "choose_first_role", _resume_leadership),)),
    "commit without a majority": Bug(((ReplicationProgress, "majority_end_offset", _majority_minus_one),)),
    "observers counted": Bug(((ReplicationProgress, "majority_end_offset", _majority_with_observers),)),
    "older epochs committed by counting replicas": Bug(
        ((committing, "may_commit", lambda leader, end: end > (leader.high_watermark or 0)),)
    ),
    "leader counts unsynced records": Bug(((committing, "own_end_offset", lambda one: one.log.end_offset),)),
    "fetch before sync": Bug(((LogView, "is_synced", property(lambda log: log.loading is None)),)),
    "candidate claims unsynced records": Bug(((LogView, "synced_end", LogView.end),)),
    "vote for a shorter log": Bug(((OffsetAndEpoch, "freshness", (0, 0)),)),
    "stale epoch accepted": Bug(((epochs, "check_claimant_epoch", _accept_stale_epoch),)),
    "truncation below the high watermark": Bug(
        ((LogView, "truncation_point", _truncate_one_epoch_more), (fetching, "check_truncation", _return(None)))
    ),
    "late responses accepted": Bug(((Requests, "complete", _return(True)),)),
    "pre-vote ignored": Bug(((election, "start_election", _start_election_without_pre_vote),)),
    "pre-vote granted despite a live leader": Bug(((election, "_has_live_leader", _return(False)),)),
    "refused connection reported by another voter": Bug(
        ((dead_leader, "is_leader_dead", lambda one: one.settings.fast_detection),)
    ),
    "snapshot ahead of the high watermark": Bug(
        ((snapshots, "check_snapshot", _return(None)),), host_type=HostWithEarlySnapshots
    ),
    "two voter changes at once": Bug(((membership, "check_voter_change", _check_version_only),)),
    "voter change before the epoch's first commit": Bug(
        ((membership, "check_voter_change", _check_without_own_commit),)
    ),
    "new voters not counted": Bug(((ReplicationProgress, "update_voters", _return(None)),)),
    "removed leader counts itself": Bug(((ReplicationProgress, "update_voters", _keep_removed_leader),)),
    "leader without followers stays": Bug(((RaftSettings, "check_quorum_timeout_ms", 1 << 40),)),
}
