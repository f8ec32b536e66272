"""Restores the last batches of a producer from the end of the log: snapshots contain one batch, the state keeps five.

After a broker restart a producer resends all batches in flight. The earlier ones are missing in the snapshot and would
be rejected as out of order although the log has them. So when a batch arrives that precedes the known ones, the end of
the log is searched for the producer's last batches.
"""

from collections.abc import Sequence

from odradek.records.batch import BatchHeader
from odradek.storage.log.producer_entry import BATCHES_KEPT, ProducerEntry, SequencedBatch
from odradek.storage.log.segment import Segment

# The five batches of a producer were in flight at the same time, so they are close together in the log.
LOOKUP_BYTES_MAX = 256 * 1024
# A limit for small segments, because each one has files to open.
_SEGMENTS_MAX = 20
_SEQUENCE_MASK = 0x7FFFFFFF


def precedes_known_batches(header: BatchHeader, entry: ProducerEntry) -> bool:
    """Whether the batch precedes the known batches of its producer, and earlier ones may be in the log."""
    if header.producer_epoch != entry.epoch or not 0 < len(entry.batches) < BATCHES_KEPT:
        return False
    # Sequence numbers wrap: the shorter distance decides.
    distance = (entry.batches[0].first_sequence - header.last_sequence) & _SEQUENCE_MASK
    return 0 < distance <= _SEQUENCE_MASK // 2


def restore_batches(segments: Sequence[Segment], entry: ProducerEntry) -> None:
    """Adds the producer's earlier batches that are found at the end of the log."""
    first_offset = entry.batches[0].first_offset
    found: list[SequencedBatch] = []
    left = LOOKUP_BYTES_MAX
    for segment in reversed(segments[-_SEGMENTS_MAX:]):
        position = segment.offset_index.lookup_position(max(0, segment.size - left)).position
        found = [*_batches_of(entry, segment, position, first_offset), *found]
        left -= segment.size - position
        if left <= 0 or len(found) >= BATCHES_KEPT:
            break
    entry.batches = [*found, *entry.batches][-BATCHES_KEPT:]


def _batches_of(entry: ProducerEntry, segment: Segment, position: int, end_offset: int) -> list[SequencedBatch]:
    return [
        SequencedBatch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        for header in segment.log.headers(position)
        if header.producer_id == entry.producer_id
        and header.producer_epoch == entry.epoch
        and not header.is_control
        and header.last_offset < end_offset
    ]
