"""Translates errors of the transaction coordinator for older versions of a request."""

from odradek.base.errors import ErrorCode


def error_for_version(error: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Clients before `fenced_since` do not know PRODUCER_FENCED."""
    if error is ErrorCode.producer_fenced and version < fenced_since:
        return ErrorCode.invalid_producer_epoch
    return error
