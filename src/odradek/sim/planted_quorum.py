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
    def snapshot_taken(self: QuorumDriver, snapshot_id: SnapshotId, size_bytes: int) -> None:
        sound(self, snapshot_id, size_bytes)
        if self.is_leader and snapshot_id.end_offset < self.log_end_offset:
            quorum = self.quorum_at(snapshot_id.end_offset)
            self._state_machine._replica.log.begin_loading(snapshot_id)
            self._store._log.truncate_fully_to(snapshot_id.end_offset, self._clock.wall_ms())
            self._store.flush()
            self.step(events.SnapshotLoaded(snapshot_id, size_bytes, quorum))

    return snapshot_taken


def _take_the_uncommitted(sound: Any) -> Any:
    async def maintain(self: Quorum) -> None:
        controller = self.controller._controller
        if controller is None or not self._policy.is_due(self._clock.wall_ms()):
            await sound(self)
            return
        image, now_ms = controller.image, self._clock.wall_ms()
        quorum = self.driver.quorum_at(image.offset + 1)
        self._policy.taken()
        taken = await self._executor.run(lambda: self._store.write_snapshot(image, quorum, now_ms))
        if taken is not None:
            self.driver.snapshot_taken(*taken)
        self._maintenance = None

    return maintain


# ---- planting


def _as_property(look: Callable[[Any], object]) -> Breaks:
    return lambda sound: property(look)


_bug: Final = partial(plant, scenario=ELECTIONS)

QUORUM_BUGS: Final = (
    _bug(
        "vote-not-synced",
        "a vote is given before it is on the disk",
        QuorumStore,
        "write_quorum_state",
        _leave_vote_in_memory,
    ),
    _bug("vote-forgotten", "a voter that restarts can vote once more", election, "choose_first_role", _forget_vote),
    _bug(
        "epoch-not-persisted",
        "an epoch without a vote or a leader is not written down",
        Replica,
        "_election_state",
        _keep_epoch_in_memory,
    ),
    _bug(
        "stale-epoch-accepted",
        "whoever led, or stood, in a past epoch is obeyed",
        epochs,
        "check_claimant_epoch",
        always(None),
    ),
    _bug(
        "shorter-log-voted-for",
        "votes are given whatever a candidate lacks",
        OffsetAndEpoch,
        "freshness",
        _as_property(lambda end: (0, 0)),
    ),
    _bug(
        "candidate-claims-the-unsynced",
        "a candidate boasts of what a loss of power would take",
        LogView,
        "synced_end",
        _as_property(lambda log: log.end),
    ),
    _bug(
        "pre-vote-ignored",
        "who hears no leader begins an epoch at once",
        election,
        "start_election",
        _start_without_pre_vote,
    ),
    _bug(
        "pre-vote-beside-a-live-leader",
        "a follower of a leader that answers helps to depose it",
        election,
        "_has_live_leader",
        always(False),
    ),
    _bug(
        "refusal-by-hearsay",
        "who finds its leader's port open takes another's word that it is shut",
        dead_leader,
        "is_leader_dead",
        lambda sound: lambda replica: replica.settings.fast_detection,
    ),
    _bug(
        "restarted-leader-leads-on",
        "a leader that restarts goes on in its old epoch",
        election,
        "choose_first_role",
        _lead_on,
    ),
    _bug(
        "deserted-leader-stays",
        "a leader that nobody follows does not resign",
        RaftSettings,
        "check_quorum_timeout_ms",
        _as_property(lambda settings: 1 << 40),
    ),
    _bug(
        "late-answers-believed",
        "an answer counts also when nobody waits for it any more",
        Requests,
        "complete",
        always(True),
    ),
    _bug(
        "fetch-before-the-sync",
        "a voter acknowledges what is only in its memory",
        LogView,
        "is_synced",
        _as_property(lambda log: log.loading is None),
    ),
    _bug(
        "leader-counts-the-unsynced",
        "what a leader has not synced counts for a majority",
        committing,
        "own_end_offset",
        lambda sound: lambda replica: replica.log.end_offset,
    ),
    _bug(
        "commit-without-majority",
        "one voter less than a majority is enough",
        ReplicationProgress,
        "majority_end_offset",
        _one_too_few,
    ),
    _bug(
        "older-epochs-counted",
        "what others wrote is committed by counting who has it",
        committing,
        "may_commit",
        _any_epoch,
    ),
    _bug(
        "cut-below-the-high-watermark",
        "a follower cuts off an epoch more than it has to",
        LogView,
        "truncation_point",
        _cut_an_epoch_more,
        (fetching, "check_truncation", always(None)),
    ),
    _bug(
        "leader-loads-a-snapshot",
        "a leader puts a snapshot in the place of its log, and what it wrote since is gone",
        QuorumDriver,
        "snapshot_taken",
        _load_as_leader,
    ),
    _bug(
        "snapshot-of-the-uncommitted",
        "a controller's snapshot has what it has only decided",
        Quorum,
        "_maintain",
        _take_the_uncommitted,
        (snapshots, "check_snapshot", always(None)),
    ),
)
