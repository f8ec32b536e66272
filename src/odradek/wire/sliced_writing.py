"""Encodes a large message in slices, so that the event loop serves other connections in between.

It must not know the event loop: an encoder is a generator, and its caller decides when the next slice runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.base.message_writer import ArrayField, Writer, entity_parts
from odradek.base.slices import Slices
from odradek.wire.error_codes import error_codes, own_error_code
from odradek.wire.schemas import parts_of

# Structures, strings and numbers that are encoded in one slice, which takes about a millisecond.
SLICE_PARTS: Final = 512
# The response is returned in chunks: a contiguous one would be copied while it grows.
CHUNK_BYTES: Final = 1 << 16


class _Chunks:
    """What has been encoded so far, and what the current slice may still encode."""

    def __init__(self, slice_parts: int, on_errors: Callable[[list[ErrorCode]], None]) -> None:
        self.slice_parts: Final = slice_parts
        self.left = slice_parts
        self.out = bytearray()
        self.errors: list[ErrorCode] = []
        self._on_errors: Final = on_errors
        self._chunks: Final[list[bytes]] = []

    def end_slice(self) -> None:
        self.left = self.slice_parts
        if self.errors:
            self._on_errors(self.errors)
            self.errors = []
        if len(self.out) >= CHUNK_BYTES:
            self._chunks.append(bytes(self.out))
            self.out = bytearray()

    def finish(self) -> list[bytes]:
        self.end_slice()
        return [*self._chunks, bytes(self.out)]


def response_slices(
    response: Any, on_errors: Callable[[list[ErrorCode]], None], slice_parts: int = SLICE_PARTS
) -> Slices[list[bytes]]:
    """Returns the chunks of the encoded response. `on_errors` receives the error codes in it, except NONE."""
    chunks = _Chunks(slice_parts, on_errors)
    yield from _entity_slices(response, chunks)
    return chunks.finish()


def _entity_slices(entity: Any, chunks: _Chunks) -> Slices[None]:
    if (own := own_error_code(entity)) is not ErrorCode.none:
        chunks.errors.append(own)
    parts: Sequence[Writer | ArrayField] = entity_parts(entity.__class__)
    for part in parts:
        if not isinstance(part, ArrayField):
            part(chunks.out, entity)
            continue
        elements = getattr(entity, part.name)
        part.write_length(chunks.out, None if elements is None else len(elements))
        for element in elements or ():
            size = parts_of(element)
            if size > chunks.slice_parts:
                yield from _entity_slices(element, chunks)
            else:
                part.write_element(chunks.out, element)
                chunks.errors += error_codes(element)
                chunks.left -= size
                if chunks.left <= 0:
                    chunks.end_slice()
                    yield
