"""A snapshot onto a disk, a piece at a time: that of a million partitions is never held in memory, nor are its records.

Blocking calls, for whatever thread the caller chooses.
"""

from collections.abc import Sequence
from typing import Final

from odradek.base.ports import Disk
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.snapshot import batches_of
from odradek.records.control import ControlMessage

_PIECE_BYTES: Final = 1 << 20


def write_snapshot_file(
    disk: Disk, path: str, image: ClusterImage, *, now_ms: int, quorum: Sequence[ControlMessage] = ()
) -> int:
    """Returns the file's size. The file is written atomically and durably."""
    temporary = f"{path}.tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        piece: list[bytes] = []
        piece_bytes = size = 0
        for batch in batches_of(image, now_ms=now_ms, quorum=quorum):
            piece.append(batch)
            piece_bytes += len(batch)
            if piece_bytes >= _PIECE_BYTES:
                size += file.append(piece)
                piece, piece_bytes = [], 0
        size += file.append(piece)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    return size
