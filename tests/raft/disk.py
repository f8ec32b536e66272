"""The simulated disk of a replica: written changes, synced changes, and what a crash leaves.

A killed process loses no writes. A power loss drops any number of the last unsynced changes.
"""

from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.stored_state import StoredState
from odradek.core.raft.voter_set import VoterSet
from odradek.core.raft.voters import Quorum

EMPTY = SnapshotId(0, 0)


def digest_after(digest: int, batch: Batch) -> int:
    """Returns the digest of the log up to and including this batch: equal digests mean equal logs."""
    return crc32(f"{batch.base_offset},{batch.last_offset},{batch.epoch},{batch.control}".encode() + batch.data, digest)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The replicated state, which is the digest of all applied records."""

    digest: int
    quorum: Quorum
    data: bytes


@dataclass(frozen=True, slots=True)
class Change:
    number: int
    truncated_to: int | None = None
    appended: tuple[Batch, ...] = ()

    def apply(self, log: list[Batch]) -> None:
        if self.truncated_to is not None:
            while log and log[-1].last_offset >= self.truncated_to:
                log.pop()
        log.extend(self.appended)


@dataclass(slots=True)
class Disk:
    static_voters: VoterSet
    formatted_with: Quorum = field(default_factory=Quorum)
    quorum_state: QuorumState = field(default_factory=QuorumState)
    base: SnapshotId = EMPTY
    """The log starts at the end of this snapshot."""
    snapshots: dict[SnapshotId, Snapshot] = field(default_factory=dict)
    log: list[Batch] = field(default_factory=list)
    synced: list[Batch] = field(default_factory=list)
    unsynced: list[Change] = field(default_factory=list)
    pieces: dict[SnapshotId, bytearray] = field(default_factory=dict)

    def write(self, change: Change) -> None:
        change.apply(self.log)
        self.unsynced.append(change)

    def sync(self, number: int) -> list[Change]:
        """Returns the changes that became durable."""
        done = [change for change in self.unsynced if change.number <= number]
        self.unsynced = [change for change in self.unsynced if change.number > number]
        for change in done:
            change.apply(self.synced)
        return done

    def load(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
        """Replaces the log atomically, as a rename does."""
        self.base = snapshot_id
        self.snapshots[snapshot_id] = snapshot
        self.log.clear()
        self.synced.clear()
        self.unsynced.clear()
        self.pieces.clear()

    def advance_start(self, snapshot_id: SnapshotId) -> None:
        self.base = snapshot_id
        self.snapshots = {one: snapshot for one, snapshot in self.snapshots.items() if one >= snapshot_id}
        self.log = [batch for batch in self.log if batch.base_offset >= snapshot_id.end_offset]
        self.synced = [batch for batch in self.synced if batch.base_offset >= snapshot_id.end_offset]

    def lose_power(self, random: Random) -> list[Change]:
        """Returns the unsynced changes that survived."""
        kept = random.randrange(len(self.unsynced) + 1) if self.unsynced else 0
        survivors = self.unsynced[:kept]
        for change in survivors:
            change.apply(self.synced)
        self.unsynced.clear()
        self.log = list(self.synced)
        self.pieces.clear()
        return survivors

    @property
    def end_offset(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else self.base.end_offset

    def read(self, start_offset: int, end_offset: int, max_batches: int) -> tuple[Batch, ...]:
        found = [batch for batch in self.log if start_offset <= batch.base_offset and batch.last_offset < end_offset]
        return tuple(found[:max_batches])

    def recover(self) -> StoredState:
        """Returns what a replica starts from. The newest snapshot replaces a log that ends before it."""
        newest = max(self.snapshots, default=EMPTY)
        if self.end_offset < newest.end_offset:
            self.load(newest, self.snapshots[newest])
        return StoredState.build(
            quorum_state=self.quorum_state,
            static_voters=self.static_voters,
            base=self.base,
            base_quorum=self.formatted_with if self.base == EMPTY else self.snapshots[self.base].quorum,
            snapshots={one: len(snapshot.data) for one, snapshot in self.snapshots.items()},
            batches=self.log,
        )
