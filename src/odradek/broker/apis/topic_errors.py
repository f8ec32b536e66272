"""Answers for partitions of which a handler has rejected some, and a coordinator has answered for the others."""

from collections.abc import Iterable

from odradek.core.groups.commands import TopicErrors


def merged(rejected: Iterable[TopicErrors], answered: Iterable[TopicErrors]) -> list[TopicErrors]:
    """Each topic once, what was rejected first."""
    topics = {topic.topic or topic.topic_id: topic for topic in rejected}
    for topic in answered:
        known = topics.get(topic.topic)
        topics[topic.topic] = topic if known is None else topic._replace(partitions=known.partitions + topic.partitions)
    return list(topics.values())
