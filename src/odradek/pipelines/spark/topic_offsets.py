"""Offsets by topic and partition in the JSON form of checkpoints, with topic IDs and a stable key order. Pure.

    {"orders": {"id": "Y0eBZtgJRXWbpzhM1OcwUA", "offsets": {"0": 23, "1": 7}}}

The ID detects a recreated topic. It is empty if the broker does not support topic IDs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition, uuid_to_text


class TopicPosition(NamedTuple):
    id: str
    offsets: dict[int, int]


class Positions(dict[str, TopicPosition]):
    """Positions by topic."""

    def to_json(self) -> dict[str, Any]:
        """Spark compares offsets as text, so equal positions must have equal text."""
        return {
            topic: {
                "id": self[topic].id,
                "offsets": {str(number): offset for number, offset in sorted(self[topic].offsets.items())},
            }
            for topic in sorted(self)
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Positions":
        """Raises ValueError if the JSON is not from a checkpoint of this source."""
        try:
            return cls(
                (topic, TopicPosition(str(one["id"]), {int(n): int(offset) for n, offset in one["offsets"].items()}))
                for topic, one in form.items()
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"The checkpoint contains {dict(form)}, which are not offsets of this source. It may belong to another "
                "query. Choose another checkpointLocation."
            ) from error

    def partitions(self) -> Iterator[tuple[TopicPartition, int]]:
        for topic in sorted(self):
            for number, offset in sorted(self[topic].offsets.items()):
                yield TopicPartition(topic, number), offset

    def find(self, partition: TopicPartition) -> int | None:
        topic = self.get(partition.topic)
        return None if topic is None else topic.offsets.get(partition.partition)

    def put(self, partition: TopicPartition, topic_id: str, offset: int) -> None:
        self.setdefault(partition.topic, TopicPosition(topic_id, {})).offsets[partition.partition] = offset


def id_text(topic_id: UUID | None) -> str:
    return "" if topic_id is None else uuid_to_text(topic_id)
