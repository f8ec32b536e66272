"""What snapshots of producers leave out: of each producer they hold the last batch, where the log remembers five.

A producer with several batches under way sends all of them again after a restart. The earlier ones are no longer known
then, and would be refused as out of order although they are there. So when a batch comes that is older than what is
known, the log's end is read for those that followed each other last.
"""

from collections.abc import Sequence

from odradek.records.batch import BatchHeader
from odradek.storage.log.producer_entry import BATCHES_KEPT, ProducerEntry, SequencedBatch
from odradek.storage.log.segment import Segment

# Five batches of one producer were under way at the same time: they do not lie far apart.
LOOKUP_BYTES_MAX = 256 * 1024
# However small segments are: each of them has files to be opened.
_SEGMENTS_MAX = 20
_SEQUENCE_MASK = 0x7FFFFFFF


def precedes_known_batches(header: BatchHeader, entry: ProducerEntry) -> bool:
    """Whether the batch comes before all that is known of its producer, who may have sent more than that."""
    if header.producer_epoch != entry.epoch or not 0 < len(entry.batches) < BATCHES_KEPT:
        return False
    # Sequence numbers wrap; what is nearer behind than ahead is behind.
    distance = (entry.batches[0].first_sequence - header.last_sequence) & _SEQUENCE_MASK
    return 0 < distance <= _SEQUENCE_MASK // 2


def restore_batches(segments: Sequence[Segment], entry: ProducerEntry) -> None:
    """Adds what the end of the log holds of the producer's batches before those that are known."""
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
