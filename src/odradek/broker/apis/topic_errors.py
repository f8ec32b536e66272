"""Merges the partition errors of a handler with those of a coordinator."""

from collections.abc import Iterable

from odradek.core.groups.commands import TopicErrors


def merge_errors(rejected: Iterable[TopicErrors], decided: Iterable[TopicErrors]) -> list[TopicErrors]:
    """Each topic once, with the rejected partitions first."""
    topics = {topic.topic or topic.topic_id: topic for topic in rejected}
    for topic in decided:
        known = topics.get(topic.topic)
        topics[topic.topic] = topic if known is None else topic._replace(partitions=known.partitions + topic.partitions)
    return list(topics.values())
