"""Faults planted into the machine or its host, by name. A checker is worth what it catches of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from odradek.base.errors import ErrorCode
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import committing, election, epochs, events, fetching, membership, snapshots, suspicion
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


# In the host


class HastyHost(Host):
    """Does not wait for quorum-state to be durable."""

    def persist(self, effect: PersistQuorumState) -> None:
        self._todo.popleft()
        self.later(self.world.random.randrange(self.sync_delay_max_ms), lambda: self._persisted(effect.state))


class EagerHost(Host):
    """Takes snapshots of all it has written, committed or not."""

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
        self.world.checker.snapshot_taken(self.node_id, snapshot_id, digest)
        self.disk.snapshots[snapshot_id] = snapshot
        self.hear(events.SnapshotTaken(snapshot_id, len(snapshot.data)))


# In the machine

_first_role = election.first_role
_election_state = Replica._election_state
_truncation_point = LogView.truncation_point
_follow = ReplicationProgress.follow


def _forget_vote(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    _first_role(replica, epoch, leader_id, None)


def _lead_on(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
    if leader_id == replica.identity.node_id:
        leader_id, voted = None, replica.key
    _first_role(replica, epoch, leader_id, voted)


def _without_epoch(replica: Replica) -> QuorumState:
    is_worth_it = replica.voted is not None or replica.leader_id is not None
    return _election_state(replica) if is_worth_it else replica._persisted


def _one_too_few(progress: ReplicationProgress) -> int | None:
    ends = [one.end_offset for one in progress.voters.values() if one.end_offset is not None]
    needed = max(1, len(progress.voters) // 2)
    return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None


def _with_observers(progress: ReplicationProgress) -> int | None:
    everybody = (*progress.voters.values(), *progress.observers.values())
    ends = [one.end_offset for one in everybody if one.end_offset is not None]
    needed = len(progress.voters) // 2 + 1
    return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None


def _cut_an_epoch_more(log: LogView, leader_end: OffsetAndEpoch) -> int:
    point = _truncation_point(log, leader_end)
    return max([log.start_offset, *(start.offset for start in log.epochs[1:] if start.offset < point)])


def _stand_without_pre_vote(replica: Replica) -> None:
    replica.become_prospective()
    replica.become_candidate()
    election._advance(replica)


def _unfenced(replica: Replica, node_id: int, epoch: int) -> None:
    return None


def _only_version(replica: Replica, leader: Any, verb: str) -> membership.Refusal | None:
    return None if replica.quorum.kraft_version > 0 else (ErrorCode.unsupported_version, verb)


def _before_own_commit(replica: Replica, leader: Any, verb: str) -> membership.Refusal | None:
    is_open = leader.change is not None or membership.has_open_change(replica, replica.high_watermark)
    return (ErrorCode.request_timed_out, verb) if is_open else _only_version(replica, leader, verb)


def _keep_own_voice(progress: ReplicationProgress, voters: VoterSet) -> None:
    own = progress.find(progress._own_key)
    _follow(progress, voters)
    if own is not None:
        progress.voters[own.key.node_id] = own


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


BUGS: dict[str, Bug] = {
    "unsynced vote": Bug(host_type=HastyHost),
    "epoch not persisted": Bug(((Replica, "_election_state", _without_epoch),)),
    "vote forgotten in a crash": Bug(((election, "first_role", _forget_vote),)),
    "restarted leader leads on": Bug(((election, "first_role", _lead_on),)),
    "commit without a majority": Bug(((ReplicationProgress, "majority_end_offset", _one_too_few),)),
    "observers counted": Bug(((ReplicationProgress, "majority_end_offset", _with_observers),)),
    "older epochs committed by counting": Bug(
        ((committing, "may_commit", lambda leader, end: end > (leader.high_watermark or 0)),)
    ),
    "leader counts what it has not synced": Bug(((committing, "own_end_offset", lambda one: one.log.end_offset),)),
    "fetch before sync": Bug(((LogView, "is_synced", property(lambda log: log.loading is None)),)),
    "candidate claims what it has not synced": Bug(((LogView, "synced_end", LogView.end),)),
    "vote for a shorter log": Bug(((OffsetAndEpoch, "freshness", (0, 0)),)),
    "stale epoch accepted": Bug(((epochs, "refusal_to_claimant", _unfenced),)),
    "truncation below the high watermark": Bug(
        ((LogView, "truncation_point", _cut_an_epoch_more), (fetching, "check_truncation", _always(None)))
    ),
    "late answers believed": Bug(((Requests, "answered", _always(True)),)),
    "pre-vote ignored": Bug(((election, "stand", _stand_without_pre_vote),)),
    "pre-vote beside a live leader": Bug(((election, "_is_content", _always(False)),)),
    "refusal by hearsay": Bug(((suspicion, "is_leader_refused", lambda one: one.settings.fast_detection),)),
    "snapshot ahead of the high watermark": Bug(((snapshots, "check_snapshot", _always(None)),), host_type=EagerHost),
    "two changes of voters at once": Bug(((membership, "refusal_to_change", _only_version),)),
    "change of voters before the epoch's first commit": Bug(((membership, "refusal_to_change", _before_own_commit),)),
    "new voters not counted": Bug(((ReplicationProgress, "follow", _always(None)),)),
    "removed leader counts itself": Bug(((ReplicationProgress, "follow", _keep_own_voice),)),
    "deserted leader stays": Bug(((RaftSettings, "check_quorum_timeout_ms", 1 << 40),)),
}
