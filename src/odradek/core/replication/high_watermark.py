"""The high watermark of one replica: the offset below which its records are committed.

A replica has exactly one instance. The partition creates it and lends it to the state machine of the current role,
which advances it. All other code reads it, and one callback reports every advance.
"""

from collections.abc import Callable
from typing import Final

UNKNOWN_BYTES: Final = 0
"""The number of bytes that an advance makes readable is not known."""


def _ignore(added_bytes: int) -> None:
    pass


class HighWatermark:
    __slots__ = ("_on_advance", "offset")

    def __init__(self, offset: int, on_advance: Callable[[int], None] = _ignore) -> None:
        """`on_advance` receives the number of bytes that became readable, or UNKNOWN_BYTES."""
        assert offset >= 0, f"high watermark {offset} is negative"
        self.offset = offset
        """Only the methods below change it."""
        self._on_advance: Final = on_advance

    def advance_to(self, offset: int, added_bytes: int = UNKNOWN_BYTES) -> bool:
        """Returns whether it advanced. It never decreases here."""
        if offset <= self.offset:
            return False
        self.offset = offset
        self._on_advance(added_bytes)
        return True

    def on_truncation(self, log_start_offset: int, log_end_offset: int) -> None:
        """Truncation is the only event that lowers it. If the log restarts at a higher offset, everything below that
        offset is committed."""
        assert log_start_offset <= log_end_offset, f"log start {log_start_offset} is after log end {log_end_offset}"
        if self.offset > log_end_offset:
            self.offset = log_end_offset
        else:
            self.advance_to(log_start_offset)
