"""What a compaction pass has to know: names and numbers only, so that another process can run it."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from odradek.base.ports import Message
from odradek.config.topic_config import TopicConfig
from odradek.storage.log.compaction_filter import LastWrite
from odradek.storage.log.transaction_index import AbortedTransaction

_NO_DATA: Final = -1
_COLUMNS: Final = 3
_NUMBERS: Final = (
    "first_dirty_offset",
    "first_uncleanable_offset",
    "now_ms",
    "turn_bytes",
    "dedupe_buffer_bytes",
    "dedupe_buffer_load_factor",
    "delete_retention_ms",
    "index_interval_bytes",
    "segment_bytes",
    "segment_index_bytes",
)


class SegmentFile(NamedTuple):
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    directory: str
    # The segments before the first uncleanable offset, in order.
    segments: Sequence[SegmentFile]
    first_dirty_offset: int
    first_uncleanable_offset: int
    # Aborted transactions that begin before the first uncleanable offset and whose markers come after it.
    later_markers: Sequence[AbortedTransaction]
    producers: Mapping[int, LastWrite]
    now_ms: int
    # Bytes to read and write before the worker reports its progress.
    turn_bytes: int
    hash_key: bytes
    dedupe_buffer_bytes: int
    dedupe_buffer_load_factor: float
    delete_retention_ms: int
    index_interval_bytes: int
    segment_bytes: int
    segment_index_bytes: int

    @property
    def input_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def segment_config(self) -> TopicConfig:
        """What segments read of it is right; the rest are defaults."""
        return replace(
            _default_config(),
            index_interval_bytes=self.index_interval_bytes,
            segment_bytes=self.segment_bytes,
            segment_index_bytes=self.segment_index_bytes,
        )

    def to_message(self) -> Message:
        fields = {name: getattr(self, name) for name in _NUMBERS} | {
            "directory": self.directory,
            "segments": self.segments,
            "later_markers": self.later_markers,
            "hash_key": self.hash_key.hex(),
        }
        # There may be many producers. This loop can be interrupted, which encoding them as JSON cannot.
        writes = array("q")
        for producer_id, (data_offset, epoch) in self.producers.items():
            writes.extend((producer_id, _NO_DATA if data_offset is None else data_offset, epoch))
        return Message(fields, writes.tobytes())

    @classmethod
    def from_message(cls, message: Message) -> "CompactionRequest":
        fields = message.fields
        writes = array("q", message.data)
        rows = zip(writes[::_COLUMNS], writes[1::_COLUMNS], writes[2::_COLUMNS], strict=True)
        return cls(
            directory=fields["directory"],
            segments=[SegmentFile(*segment) for segment in fields["segments"]],
            later_markers=[AbortedTransaction(*transaction) for transaction in fields["later_markers"]],
            producers={one: LastWrite(None if offset == _NO_DATA else offset, epoch) for one, offset, epoch in rows},
            hash_key=bytes.fromhex(fields["hash_key"]),
            **{name: fields[name] for name in _NUMBERS},
        )


@cache
def _default_config() -> TopicConfig:
    return TopicConfig.resolve()
