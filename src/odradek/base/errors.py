"""Kafka's error codes, and the exception that carries one to a client."""

import errno

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "KafkaError", "WorkerFailed", "is_disk_failure"]

# Resources of the process, not of the disk: a retry may succeed.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class KafkaError(Exception):
    """An error that the client receives as a code; `message` is for the error message field, if there is one."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name.upper()}: {message}" if message else code.name.upper())
        self.code = code
        self.message = message


class WorkerFailed(Exception):
    """A worker process ended, could not be started, or failed by a bug. The task may succeed later."""


def is_disk_failure(error: OSError) -> bool:
    """Whether the error indicates a failed disk, whose contents cannot be trusted until an operator has checked it."""
    return error.errno not in _EXHAUSTED
