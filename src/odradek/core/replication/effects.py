"""Effects of `FollowerState`: what the shell does after a response of the leader."""

from odradek.base.errors import ErrorCode
from odradek.base.values import value


@value
class Append:
    """Append the fetched records, if there are any, then call `FollowerState.on_append`."""

    restart_at: int | None = None
    """If set, restart the empty log at this offset first: the leader's log starts inside the first fetched batch, which
    therefore begins before this log does."""


@value
class TruncateTo:
    """Truncate the log to this offset. Leader epochs that start at or after it are removed even if the log already ends
    there."""

    offset: int
    loses_committed: bool
    """The offset is below the high watermark, which happens only after an unclean election."""


@value
class TruncateFullyTo:
    """Delete the whole log and restart it at this offset."""

    offset: int


@value
class FetchLeaderOffsets:
    """Request the start and the end of the leader's log by ListOffsets, then call `FollowerState.on_leader_offsets`."""


@value
class BackOff:
    """Do not fetch for now."""

    until: float | None
    """None: until the metadata log contains a new leader epoch."""
    error: ErrorCode


@value
class ReportFault:
    """Like `BackOff`, for an error that should not happen: log it for the operator."""

    until: float
    reason: str


Effect = Append | TruncateTo | TruncateFullyTo | FetchLeaderOffsets | BackOff | ReportFault
