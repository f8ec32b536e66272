"""The effects of a replica's steps. The driver executes them in order, across steps.

The order is a guarantee: no effect after a PersistQuorumState may happen before that is durable. Otherwise a crash
could lose a vote or an epoch that other nodes already know. Log changes are different: Append and Truncate only start
them, LogSynced reports that they are durable, and the replica waits with what depends on it.
"""

from odradek.base.values import value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch
from odradek.core.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from odradek.core.raft.quorum_state import QuorumState
from odradek.records.control import VoterEndpoint

# Messages


@value
class Send:
    destination: int
    endpoints: tuple[VoterEndpoint, ...]
    """The destination's endpoints; empty for `bootstrap_ids`, whose addresses are configured."""
    correlation_id: int
    message: Request


@value
class Respond:
    request_id: int
    message: Response


@value
class RespondWithRecords:
    """The driver adds whole batches from its log to the response: at least one, and at most `max_bytes` if there are
    more. It reads them before it executes any later effect, so that they belong to this leader's log."""

    request_id: int
    message: FetchResponse
    start_offset: int
    end_offset: int
    max_bytes: int


@value
class RespondWithSnapshot:
    """The driver adds the snapshot's bytes from the response's position."""

    request_id: int
    message: FetchSnapshotResponse
    max_bytes: int


# Disk


@value
class PersistQuorumState:
    state: QuorumState
    kraft_version: int
    voter_ids: tuple[int, ...]


@value
class Append:
    change: int
    batches: tuple[Batch, ...]


@value
class Truncate:
    change: int
    end_offset: int


@value
class WriteSnapshotPiece:
    """Position 0 starts a new file."""

    snapshot_id: SnapshotId
    position: int
    data: bytes


@value
class AbandonSnapshot:
    """The download was cancelled."""

    snapshot_id: SnapshotId


@value
class LoadSnapshot:
    """The snapshot is complete: replace the log with it, then report SnapshotLoaded."""

    change: int
    snapshot_id: SnapshotId


# Notifications of the driver


@value
class LeaderChanged:
    leader_id: int
    epoch: int


@value
class BecameLeader:
    """The driver may append records. Earlier epochs count as committed only after LeadershipConfirmed."""

    epoch: int
    epoch_start_offset: int


@value
class LeadershipConfirmed:
    """A record of this epoch is committed, and with it everything before: the controller may become active."""

    epoch: int


@value
class LeadershipLost:
    epoch: int


@value
class AppendRejected:
    """The result of an AppendRequested or KRaftVersionRequested that the replica does not execute."""

    reason: str


@value
class HighWatermarkAdvanced:
    offset: int
    """Everything before it is committed and may be applied."""


@value
class SetTimer:
    """Replaces the previous timer."""

    at_ms: int


@value
class ReadyToStop:
    """After StopRequested: the node may stop."""


Effect = (
    Send
    | Respond
    | RespondWithRecords
    | RespondWithSnapshot
    | PersistQuorumState
    | Append
    | Truncate
    | WriteSnapshotPiece
    | AbandonSnapshot
    | LoadSnapshot
    | LeaderChanged
    | BecameLeader
    | LeadershipConfirmed
    | LeadershipLost
    | AppendRejected
    | HighWatermarkAdvanced
    | SetTimer
    | ReadyToStop
)
