"""What a replica hears: messages, its disk's progress, wishes of its host, and the passing of time."""

from odradek.base.values import value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.messages import Request, Response
from odradek.core.raft.voters import Quorum


@value
class TimePassed:
    """The deadline of the last SetTimer has come. Harmless at any other time."""


@value
class RequestReceived:
    request_id: int
    """The host's own number, unique among open requests: the answer names it."""
    message: Request


@value
class ResponseReceived:
    source: int
    """The destination that the request was sent to."""
    correlation_id: int
    message: Response


@value
class RequestFailed:
    """No response will come: the connection broke, or could not be made."""

    destination: int
    correlation_id: int


@value
class RecordsOffered:
    """The host, believing that it leads in this epoch, wants one batch of records appended."""

    epoch: int
    record_count: int
    data: bytes


@value
class LogSynced:
    """Every change of the log up to this one would survive a power loss."""

    change: int


@value
class SnapshotTaken:
    """The host wrote a snapshot of its own state, which stands for the log before its end."""

    snapshot_id: SnapshotId
    size_bytes: int


@value
class SnapshotLoaded:
    """Done with LoadSnapshot, durably: the log is empty and begins at the snapshot's end."""

    snapshot_id: SnapshotId
    size_bytes: int
    quorum: Quorum
    """What the snapshot says of it."""


@value
class LogStartAdvanced:
    """The host removed what this snapshot stands for, and the snapshots before it."""

    snapshot_id: SnapshotId


@value
class ResignRequested:
    """The host cannot go on as this epoch's leader. Nothing happens in any other epoch."""

    epoch: int


@value
class KRaftVersionWanted:
    """An upgrade from fixed voters to voters in the log."""

    epoch: int
    kraft_version: int


@value
class StopRequested:
    """The node ends soon: leadership is handed over, and no election is begun."""


@value
class ConnectionRefused:
    """A connect to this node was answered by a refusal: nobody listens there. Not: no answer, or no route."""

    node_id: int


@value
class ConnectionUp:
    node_id: int


Event = (
    TimePassed
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | RecordsOffered
    | LogSynced
    | SnapshotTaken
    | SnapshotLoaded
    | LogStartAdvanced
    | ResignRequested
    | KRaftVersionWanted
    | StopRequested
    | ConnectionRefused
    | ConnectionUp
)
