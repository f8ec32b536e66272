"""What clients hear of a transaction coordinator's refusals, each in the words of its version."""

from odradek.base.errors import ErrorCode


def for_version(error: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Clients before `fenced_since` do not know PRODUCER_FENCED."""
    if error is ErrorCode.producer_fenced and version < fenced_since:
        return ErrorCode.invalid_producer_epoch
    return error
