"""What a follower has to do with its log, or with its time, after its leader has answered."""

from odradek.base.errors import ErrorCode
from odradek.base.values import value


@value
class Append:
    """Append what came, if anything did, and then tell `FollowerState.appended`."""

    restart_at: int | None = None
    """The first batch begins before this log does, which is empty: the leader's log starts inside the batch. The log
    has to begin at this offset first."""


@value
class TruncateTo:
    """Cut the log here, and then tell `FollowerState.truncated`. Epochs that begin here or later go with it, also if
    the log ends here already."""

    offset: int
    loses_committed: bool
    """Below the high watermark: only an unclean election asks for that."""


@value
class TruncateFullyTo:
    """Drop the whole log, begin anew at this offset, and then tell `FollowerState.truncated`."""

    offset: int


@value
class AskLeaderOffsets:
    """Ask the leader by ListOffsets where its log starts and ends, and tell `FollowerState.leader_offsets`."""


@value
class Wait:
    """Nothing can be fetched now."""

    until: float | None
    """None: until the metadata log names a new leader epoch."""
    error: ErrorCode


@value
class ReportFault:
    """As `Wait`, for something that should not be: people should read of it."""

    until: float
    reason: str


Action = Append | TruncateTo | TruncateFullyTo | AskLeaderOffsets | Wait | ReportFault
