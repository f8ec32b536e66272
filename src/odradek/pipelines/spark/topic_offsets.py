"""Positions in topics, as checkpoints hold them: JSON with keys in a stable order, topics with their ids. Pure.

    {"orders": {"id": "Y0eBZtgJRXWbpzhM1OcwUA", "offsets": {"0": 23, "1": 7}}}

The id tells a topic from one of the same name that was created after it was deleted; it is empty where a broker has
no ids.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition, uuid_to_text


class TopicPosition(NamedTuple):
    id: str
    offsets: dict[int, int]


class Positions(dict[str, TopicPosition]):
    """By topic."""

    def to_json(self) -> dict[str, Any]:
        """Spark compares offsets by their text: equal positions have equal texts."""
        return {
            topic: {
                "id": self[topic].id,
                "offsets": {str(number): offset for number, offset in sorted(self[topic].offsets.items())},
            }
            for topic in sorted(self)
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Positions":
        """Raises ValueError for what a checkpoint of this source does not hold."""
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
