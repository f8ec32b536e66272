"""Replays batches of the metadata log on an image; a metadata transaction takes effect at its end."""

from collections.abc import Iterable

from odradek.core.metadata.apply import ImageDelta, apply
from odradek.core.metadata.batches import MetadataBatch
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)

_RECORDS_PER_STEP = 20_000


class Replay:
    """Replays a log from its snapshot to its end."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._ready: list[MetadataRecord] = []
        self._unfinished: list[MetadataRecord] | None = None
        """Records of the open transaction. None: there is none."""
        self._offset = image.offset
        self._epoch = image.epoch
        self._timestamp_ms = image.timestamp_ms

    @property
    def is_inside_transaction(self) -> bool:
        return self._unfinished is not None

    def take(self, batch: MetadataBatch) -> None:
        first_offset = batch.last_offset - len(batch.records) + 1
        assert first_offset == self._offset + 1 or (not batch.records and first_offset > self._offset), (
            f"the batch that ends at {batch.last_offset} does not follow offset {self._offset}"
        )
        for record in batch.records:
            if isinstance(record, BeginTransactionRecord):
                self._unfinished = []
            elif isinstance(record, EndTransactionRecord):
                self._ready += self._unfinished or ()
                self._unfinished = None
            elif isinstance(record, AbortTransactionRecord):
                self._unfinished = None
            elif self._unfinished is not None:
                self._unfinished.append(record)
            else:
                self._ready.append(record)
        self._offset, self._epoch, self._timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms

    def take_all(self, batches: Iterable[MetadataBatch]) -> None:
        for batch in batches:
            self.take(batch)
            if len(self._ready) >= _RECORDS_PER_STEP:
                self.step()

    def note_kraft_version(self, level: int) -> None:
        """kraft.version is in a control record."""
        self._image = self._image.with_kraft_version(level)

    def image(self) -> ClusterImage:
        return self.step()[0]

    def step(self) -> tuple[ClusterImage, ImageDelta]:
        """Returns the image with all batches so far, and the difference to the last call."""
        self._image, delta = apply(
            self._image, self._ready, offset=self._offset, epoch=self._epoch, timestamp_ms=self._timestamp_ms
        )
        self._ready = []
        return self._image, delta
