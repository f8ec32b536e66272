"""The buffers of a node's streamed responses, used again and again: fresh memory costs as much as the copy itself.

There are a few large ones. A connection that gets none, or whose client reads slowly, uses a small one of its own, so
that many slow clients take little memory.
"""

from typing import Final

SMALL_BYTES: Final = 64 << 10
LARGE_BYTES: Final = 1 << 20
LARGE_MAX: Final = 16


class SendBuffers:
    def __init__(self) -> None:
        self._unused: Final[list[bytearray]] = []
        self._large_count = 0

    def exchange(self, buffer: bytearray | None, *, is_fast: bool) -> bytearray:
        """A buffer for the next chunk, in exchange for that of the last one. `is_fast`: the client reads fast."""
        if buffer is not None and _is_large(buffer) == is_fast:
            return buffer
        large = self._take_large() if is_fast else None
        if large is not None:
            return large
        if buffer is None or _is_large(buffer):
            self.give_back(buffer)
            return bytearray(SMALL_BYTES)
        return buffer

    def _take_large(self) -> bytearray | None:
        if self._unused:
            return self._unused.pop()
        if self._large_count == LARGE_MAX:
            return None
        self._large_count += 1
        return bytearray(LARGE_BYTES)

    def give_back(self, buffer: bytearray | None) -> None:
        if buffer is not None and _is_large(buffer):
            self._unused.append(buffer)

    def drop(self, buffer: bytearray | None) -> None:
        """The buffer may still be in use elsewhere: it is not used again."""
        if buffer is not None and _is_large(buffer):
            self._large_count -= 1


def _is_large(buffer: bytearray) -> bool:
    return len(buffer) > SMALL_BYTES
