"""The state that a replica reads from its disk when it starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch
from odradek.core.raft.log_view import BOOTSTRAP_SNAPSHOT, LogView
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.voter_set import QuorumHistory, VoterSet
from odradek.core.raft.voters import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """All of it is synced before the replica starts."""

    quorum_state: QuorumState
    log: LogView
    quorum: QuorumHistory

    @classmethod
    def build(
        cls,
        *,
        quorum_state: QuorumState,
        static_voters: VoterSet,
        base: SnapshotId,
        base_quorum: Quorum,
        snapshots: Mapping[SnapshotId, int],
        batches: Iterable[Batch],
    ) -> "StoredState":
        """`base` is the snapshot at whose end the log starts, or that of the formatted directory, and `base_quorum` its
        voters; `snapshots` has all snapshots with their sizes in bytes; `batches` is the log."""
        log = LogView()
        quorum = QuorumHistory(static_voters)
        quorum.load(base_quorum, base.end_offset)
        if base != BOOTSTRAP_SNAPSHOT:
            log.on_loaded(base, snapshots[base])
        log.snapshots.update(snapshots)
        for batch in batches:
            log.on_synced(log.append(batch))
            quorum.on_append(batch.control, batch.base_offset)
        return cls(quorum_state=quorum_state, log=log, quorum=quorum)
