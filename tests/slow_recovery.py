"""A log whose recovery takes many seconds: small batches, of which every one has to be checked."""

import struct
from pathlib import Path

from tests.record_batches import TestRecord, batch

_BASE_OFFSET = struct.Struct(">q")


def append_unflushed(directory: Path, *, batches: int, segments: int = 1) -> None:
    """Write segments of a partition as if the node had been killed: without indexes, after its recovery point."""
    data = batch(TestRecord(b"v"), leader_epoch=0)
    # Outside the CRC, so the rest of a batch is the same at every offset.
    rest = data[_BASE_OFFSET.size :]
    per_segment = batches // segments
    for number in range(segments):
        first = number * per_segment
        file = directory / f"{first:020d}.log"
        offsets = range(first, first + per_segment)
        file.write_bytes(b"".join(part for offset in offsets for part in (_BASE_OFFSET.pack(offset), rest)))
