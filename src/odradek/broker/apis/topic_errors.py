"""Answers for partitions of which a handler has refused some, and a coordinator has answered for the others."""

from collections.abc import Iterable

from odradek.core.groups.commands import TopicErrors


def merged(refused: Iterable[TopicErrors], answered: Iterable[TopicErrors]) -> list[TopicErrors]:
    """Each topic once, what was refused first."""
    topics = {topic.topic or topic.topic_id: topic for topic in refused}
    for topic in answered:
        known = topics.get(topic.topic)
        topics[topic.topic] = topic if known is None else topic._replace(partitions=known.partitions + topic.partitions)
    return list(topics.values())
