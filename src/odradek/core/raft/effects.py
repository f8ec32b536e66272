"""What a replica wants done, as values. The host carries them out in the order given, across steps.

The order is a promise: nothing that follows a PersistQuorumState may happen before that is durable. A vote or an epoch
that left this node would otherwise be forgotten in a crash. The log is different: its changes are only begun here, the
replica hears of their durability by LogSynced and waits with what depends on it.
"""

from odradek.base.values import value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch
from odradek.core.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from odradek.core.raft.quorum_state import QuorumState
from odradek.records.control import VoterEndpoint

# Talking


@value
class Send:
    destination: int
    endpoints: tuple[VoterEndpoint, ...]
    """Where the destination is; empty for those of `bootstrap_ids`, whose address is the configuration's."""
    correlation_id: int
    message: Request


@value
class Respond:
    request_id: int
    message: Response


@value
class RespondWithRecords:
    """The host adds whole batches from its log to the response: at least one, of at most `max_bytes` if there are more.
    It reads them before it carries out any later effect, so that they are of this leader's log."""

    request_id: int
    message: FetchResponse
    start_offset: int
    end_offset: int
    max_bytes: int


@value
class RespondWithSnapshot:
    """The host adds the snapshot's bytes from the response's position on."""

    request_id: int
    message: FetchSnapshotResponse
    max_bytes: int


# Keeping


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
    """Position 0 begins the file anew."""

    snapshot_id: SnapshotId
    position: int
    data: bytes


@value
class AbandonSnapshot:
    """Its last piece will not come."""

    snapshot_id: SnapshotId


@value
class LoadSnapshot:
    """The pieces are a whole snapshot now: it takes the place of the log. SnapshotLoaded is the answer."""

    change: int
    snapshot_id: SnapshotId


# Telling the host


@value
class LeaderChanged:
    leader_id: int
    epoch: int


@value
class BecameLeader:
    """Records may be offered. Those of earlier epochs are not known to be committed before LeadershipConfirmed."""

    epoch: int
    epoch_start_offset: int


@value
class LeadershipConfirmed:
    """A record of the own epoch is committed, and with it everything before: the controller may begin."""

    epoch: int


@value
class LostLeadership:
    epoch: int


@value
class RecordsRefused:
    """Of RecordsOffered and KRaftVersionWanted: not as leader of that epoch, or not now."""

    reason: str


@value
class HighWatermarkMoved:
    offset: int
    """Everything before it is committed and may be applied."""


@value
class SetTimer:
    """Takes the place of the timer set before."""

    at_ms: int


@value
class ReadyToStop:
    """After StopRequested: this node is not needed any more."""


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
    | LostLeadership
    | RecordsRefused
    | HighWatermarkMoved
    | SetTimer
    | ReadyToStop
)
