"""Parses and formats partitions: `topic` for all partitions, or `topic:0,1` for some."""

from collections.abc import Iterable, Sequence

from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownPartition
from odradek.text.errors import UserError


def find_partitions(cluster: Cluster, names: Sequence[str], option: str) -> list[TopicPartition]:
    """Return the named partitions, sorted. Raises UnknownTopic, UnknownPartition, or UserError for invalid syntax."""
    wanted = [_parse(name, option) for name in names]
    layouts = cluster.retry("looking up topics", lambda: cluster.topics([topic for topic, _ in wanted]))
    found: set[TopicPartition] = set()
    for topic, numbers in wanted:
        count = len(layouts[topic].partitions)
        for number in range(count) if numbers is None else numbers:
            if number >= count:
                raise UnknownPartition(topic, number, count)
            found.add(TopicPartition(topic, number))
    return sorted(found)


def name_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions as `orders:0,1 payments:2`."""
    by_topic = partitions_by_topic(partitions)
    return " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())


def _parse(name: str, option: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = name.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(part.isascii() and part.isdigit() for part in numbers.split(",")):
        raise UserError(f"{option} {name!r} is invalid. Write TOPIC or TOPIC:0,1.")
    return topic, [int(part) for part in numbers.split(",")]
