"""Kafka's error codes, and the one exception that carries one of them to a client."""

import errno

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "KafkaError", "is_disk_failure"]

# What the process ran out of, not the disk: it may work at the next try.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class KafkaError(Exception):
    """A refusal that the client hears as an error code; `message` is for the field beside it, where there is one."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name.upper()}: {message}" if message else code.name.upper())
        self.code = code
        self.message = message


def is_disk_failure(error: OSError) -> bool:
    """Whether the error speaks of the disk, so that nothing on it can be trusted until somebody has looked."""
    return error.errno not in _EXHAUSTED
