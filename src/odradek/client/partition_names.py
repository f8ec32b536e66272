"""Partitions as people name them: a topic for all of its partitions, or `topic:0,1` for some."""

from collections.abc import Iterable, Sequence

from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownPartition
from odradek.text.errors import UserError


def partitions_named(cluster: Cluster, names: Sequence[str], option: str) -> list[TopicPartition]:
    """In the order of their names. Raises UnknownTopic, UnknownPartition, or UserError for what is no name."""
    wanted = [_parse(name, option) for name in names]
    layouts = cluster.retry("looking for topics", lambda: cluster.topics([topic for topic, _ in wanted]))
    found: set[TopicPartition] = set()
    for topic, numbers in wanted:
        count = len(layouts[topic].partitions)
        for number in range(count) if numbers is None else numbers:
            if number >= count:
                raise UnknownPartition(topic, number, count)
            found.add(TopicPartition(topic, number))
    return sorted(found)


def name_partitions(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1 payments:2`."""
    by_topic = partitions_by_topic(partitions)
    return " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())


def _parse(name: str, option: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = name.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(part.isascii() and part.isdigit() for part in numbers.split(",")):
        raise UserError(f"{option} {name!r} is neither a topic nor of the form topic:0,1")
    return topic, [int(part) for part in numbers.split(",")]
