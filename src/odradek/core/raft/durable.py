"""What a replica finds on its disk when it starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch
from odradek.core.raft.log_view import BOOTSTRAP_SNAPSHOT, LogView
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.voter_set import QuorumHistory, VoterSet
from odradek.core.raft.voters import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """All of it is synced: the host does that before it starts the replica."""

    quorum_state: QuorumState
    log: LogView
    quorum: QuorumHistory

    @classmethod
    def found(
        cls,
        *,
        quorum_state: QuorumState,
        static_voters: VoterSet,
        base: SnapshotId,
        base_quorum: Quorum,
        snapshots: Mapping[SnapshotId, int],
        batches: Iterable[Batch],
    ) -> "Durable":
        """`base` is the snapshot at whose end the log begins, or the one that the directory was formatted with, and
        `base_quorum` what it says; `snapshots` are all there are, with their sizes in bytes; `batches` is the log."""
        log = LogView()
        quorum = QuorumHistory(static_voters)
        quorum.load(base_quorum, base.end_offset)
        if base != BOOTSTRAP_SNAPSHOT:
            log.loaded(base, snapshots[base])
        log.snapshots.update(snapshots)
        for batch in batches:
            log.synced(log.append(batch))
            quorum.note(batch.control, batch.base_offset)
        return cls(quorum_state=quorum_state, log=log, quorum=quorum)
