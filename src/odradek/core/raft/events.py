"""The events of a replica: messages, completed disk writes, requests of its driver, and time."""

from odradek.base.values import value
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.messages import Request, Response
from odradek.core.raft.voters import Quorum


@value
class TimePassed:
    """The deadline of the last SetTimer has passed. It may also be sent at any other time."""


@value
class RequestReceived:
    request_id: int
    """Unique among the driver's open requests; the response has the same ID."""
    message: Request


@value
class ResponseReceived:
    source: int
    """The destination that the request was sent to."""
    correlation_id: int
    message: Response


@value
class RequestFailed:
    """There will be no response: the connection closed or could not be opened."""

    destination: int
    correlation_id: int


@value
class AppendRequested:
    """The driver requests the append of one batch as the leader of this epoch."""

    epoch: int
    record_count: int
    data: bytes


@value
class LogSynced:
    """All log changes up to this one are durable."""

    change: int


@value
class SnapshotTaken:
    """The driver has written a snapshot, which can replace the log before its end."""

    snapshot_id: SnapshotId
    size_bytes: int


@value
class SnapshotLoaded:
    """LoadSnapshot is done and durable: the log is empty and starts at the snapshot's end."""

    snapshot_id: SnapshotId
    size_bytes: int
    quorum: Quorum
    """The voters in the snapshot."""


@value
class LogStartAdvanced:
    """The driver has deleted the log before this snapshot's end, and the older snapshots."""

    snapshot_id: SnapshotId


@value
class ResignRequested:
    """The driver cannot continue as the leader of this epoch. Ignored in any other epoch."""

    epoch: int


@value
class KRaftVersionRequested:
    """An upgrade from static voters to voters in the log."""

    epoch: int
    kraft_version: int


@value
class StopRequested:
    """The node stops soon: it hands over leadership and starts no election."""


@value
class ConnectionRefused:
    """A connection to this node was refused: no process listens. A timeout or a missing route is not a refusal."""

    node_id: int


@value
class ConnectionUp:
    node_id: int


Event = (
    TimePassed
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | AppendRequested
    | LogSynced
    | SnapshotTaken
    | SnapshotLoaded
    | LogStartAdvanced
    | ResignRequested
    | KRaftVersionRequested
    | StopRequested
    | ConnectionRefused
    | ConnectionUp
)
