"""The partition changes of one result, each based on those before it.

A request may name a partition twice: the second change must see the first.
"""

from uuid import UUID

from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.metadata.apply import merge
from odradek.core.metadata.image import PartitionImage, TopicImage
from odradek.core.metadata.records import PartitionChangeRecord


class Draft:
    def __init__(self) -> None:
        self.records = BoundedRecords()
        self._changed: dict[tuple[UUID, int], PartitionImage] = {}

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        return self._changed.get((topic.id, index)) or topic.partitions.get(index)

    def add(self, partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
        """Returns the partition after the record."""
        changed = merge(partition, record)
        self._changed[record.topic_id, record.partition_id] = changed
        self.records.append(record)
        return changed
