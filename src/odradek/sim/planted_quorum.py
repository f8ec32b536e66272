"""Bugs of consensus, switched on by name. What finds them are three voters whose leader is struck: see `planted`."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import committing, dead_leader, election, epochs, events, fetching, snapshots
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.log_view import LogView
from odradek.core.raft.progress import ReplicationProgress
from odradek.core.raft.quorum_state import FILE_NAME, QuorumState
from odradek.core.raft.replica import Replica
from odradek.core.raft.requests import Requests
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.driver import QuorumDriver
from odradek.quorum.quorum import Quorum
from odradek.quorum.store import QuorumStore
from odradek.sim.planted_bug import Breaks, always, plant
from odradek.sim.scenarios import ELECTIONS

# ---- votes and epochs


def _leave_vote_in_memory(sound: Any) -> Any:
    def write_quorum_state(self: QuorumStore, state: QuorumState, kraft_version: int, voter_ids: Any) -> None:
        path = self._path(FILE_NAME)
        file = self._disk.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write_at(0, state.encode(kraft_version, voter_ids))
        self._disk.rename(path + ".tmp", path, durable=False)

    return write_quorum_state


def _forget_vote(sound: Any) -> Any:
    def choose_first_role(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
        sound(replica, epoch, leader_id, None)

    return choose_first_role


def _lead_on(sound: Any) -> Any:
    def choose_first_role(replica: Replica, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
        if leader_id == replica.identity.node_id:
            leader_id, voted = None, replica.key
        sound(replica, epoch, leader_id, voted)

    return choose_first_role


def _keep_epoch_in_memory(sound: Any) -> Any:
    def election_state(replica: Replica) -> QuorumState:
        is_worth_it = replica.voted is not None or replica.leader_id is not None
        state: QuorumState = sound(replica) if is_worth_it else replica._persisted
        return state

    return election_state


def _start_without_pre_vote(sound: Any) -> Any:
    def start_election(replica: Replica) -> None:
        replica.become_prospective()
        replica.become_candidate()
        election._advance(replica)

    return start_election


# ---- commits


def _one_too_few(sound: Any) -> Any:
    def majority_end_offset(progress: ReplicationProgress) -> int | None:
        ends = [one.end_offset for one in progress.voters.values() if one.end_offset is not None]
        needed = max(1, len(progress.voters) // 2)
        return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None

    return majority_end_offset


def _any_epoch(sound: Any) -> Any:
    return lambda leader, end_offset: end_offset > (leader.high_watermark or 0)


def _cut_an_epoch_more(sound: Any) -> Any:
    def truncation_point(log: LogView, leader_end: OffsetAndEpoch) -> int:
        point = sound(log, leader_end)
        return max([log.start_offset, *(start.offset for start in log.epochs[1:] if start.offset < point)])

    return truncation_point


# ---- snapshots


def _load_as_leader(sound: Any) -> Any:
    def on_snapshot(self: QuorumDriver, snapshot_id: SnapshotId, size_bytes: int) -> None:
        sound(self, snapshot_id, size_bytes)
        if self.is_leader and snapshot_id.end_offset < self.log_end_offset:
            quorum = self.quorum_at(snapshot_id.end_offset)
            self._state_machine._replica.log.begin_loading(snapshot_id)
            self._store._log.truncate_fully_to(snapshot_id.end_offset, self._clock.wall_ms())
            self._store.flush()
            self.step(events.SnapshotLoaded(snapshot_id, size_bytes, quorum))

    return on_snapshot


def _take_the_uncommitted(sound: Any) -> Any:
    async def maintain(self: Quorum) -> None:
        controller = self.controller._controller
        if controller is None or not self._policy.is_due(self._clock.wall_ms()):
            await sound(self)
            return
        image, now_ms = controller.image, self._clock.wall_ms()
        quorum = self.driver.quorum_at(image.offset + 1)
        self._policy.on_snapshot()
        taken = await self._executor.run(lambda: self._store.write_snapshot(image, quorum, now_ms))
        if taken is not None:
            self.driver.on_snapshot(*taken)
        self._maintenance = None

    return maintain


# ---- planting


def _as_property(look: Callable[[Any], object]) -> Breaks:
    return lambda sound: property(look)


_bug: Final = partial(plant, scenario=ELECTIONS)

QUORUM_BUGS: Final = (
    _bug(
        "vote-not-fsynced",
        "a voter responds to a Vote request before its vote is synced",
        QuorumStore,
        "write_quorum_state",
        _leave_vote_in_memory,
    ),
    _bug("vote-forgotten", "a voter that restarts forgets its vote", election, "choose_first_role", _forget_vote),
    _bug(
        "epoch-not-persisted",
        "an epoch without a vote or a leader is not persisted",
        Replica,
        "_election_state",
        _keep_epoch_in_memory,
    ),
    _bug(
        "stale-epoch-accepted",
        "requests of leaders and candidates of a past epoch are accepted",
        epochs,
        "check_claimant_epoch",
        always(None),
    ),
    _bug(
        "vote-for-shorter-log",
        "a voter grants its vote to a candidate with a shorter log",
        OffsetAndEpoch,
        "freshness",
        _as_property(lambda end: (0, 0)),
    ),
    _bug(
        "candidate-claims-unsynced-log",
        "a candidate reports a log end that is not synced",
        LogView,
        "synced_end",
        _as_property(lambda log: log.end),
    ),
    _bug(
        "no-pre-vote",
        "a voter starts an election without pre-votes",
        election,
        "start_election",
        _start_without_pre_vote,
    ),
    _bug(
        "pre-vote-despite-live-leader",
        "a follower of a live leader grants pre-votes",
        election,
        "_has_live_leader",
        always(False),
    ),
    _bug(
        "dead-leader-without-own-probe",
        "a voter treats its leader as dead without probing the leader's port itself",
        dead_leader,
        "is_leader_dead",
        lambda sound: lambda replica: replica.settings.fast_detection,
    ),
    _bug(
        "restarted-leader-keeps-epoch",
        "a leader that restarts keeps leading in its old epoch",
        election,
        "choose_first_role",
        _lead_on,
    ),
    _bug(
        "leader-without-majority-stays",
        "a leader that a majority no longer fetches from does not resign",
        RaftSettings,
        "check_quorum_timeout_ms",
        _as_property(lambda settings: 1 << 40),
    ),
    _bug(
        "late-responses-accepted",
        "responses to requests that timed out are accepted",
        Requests,
        "complete",
        always(True),
    ),
    _bug(
        "voter-fetches-before-fsync",
        "a voter fetches from an offset that it has not synced",
        LogView,
        "is_synced",
        _as_property(lambda log: log.loading is None),
    ),
    _bug(
        "leader-counts-unsynced-records",
        "a leader counts its own unsynced records towards a majority",
        committing,
        "own_end_offset",
        lambda sound: lambda replica: replica.log.end_offset,
    ),
    _bug(
        "commit-without-majority",
        "the high watermark advances with one voter less than a majority",
        ReplicationProgress,
        "majority_end_offset",
        _one_too_few,
    ),
    _bug(
        "older-epoch-committed-by-count",
        "records of earlier epochs are committed by counting replicas",
        committing,
        "may_commit",
        _any_epoch,
    ),
    _bug(
        "truncation-below-high-watermark",
        "a follower truncates one epoch too many",
        LogView,
        "truncation_point",
        _cut_an_epoch_more,
        (fetching, "check_truncation", always(None)),
    ),
    _bug(
        "leader-loads-snapshot",
        "a leader replaces its log with a snapshot and loses later records",
        QuorumDriver,
        "on_snapshot",
        _load_as_leader,
    ),
    _bug(
        "snapshot-of-uncommitted-records",
        "a snapshot contains uncommitted records",
        Quorum,
        "_maintain",
        _take_the_uncommitted,
        (snapshots, "check_snapshot", always(None)),
    ),
)
