"""The answer written by hand is what kio writes, in every version; whatever is unusual is left to kio."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.group_commands import PartitionError, TopicErrors
from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED
from odradek.protocol.offset_commit_codec import all_committed
from odradek.protocol.schemas import schema

VERSIONS = range(2, 11)
TOPIC_ID = UUID(int=77)


def topic(name: str, partitions: int, error: ErrorCode = ErrorCode.none) -> TopicErrors:
    errors = [PartitionError(index, ErrorCode.none) for index in range(partitions - 1)]
    return TopicErrors(name, (*errors, PartitionError(70_000, error)), TOPIC_ID)


def by_kio(topics: list[TopicErrors], version: int) -> bytes:
    messages = schema(8, version)

    def told(one: TopicErrors) -> object:
        partitions = tuple(
            messages.new("OffsetCommitResponsePartition", partition_index=index, error_code=error)
            for index, error in one.partitions
        )
        return messages.new("OffsetCommitResponseTopic", name=one.topic, topic_id=one.topic_id, partitions=partitions)

    return messages.write(
        messages.new("OffsetCommitResponse", throttle_time=NOT_THROTTLED, topics=tuple(map(told, topics)))
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "topics",
    [[], [topic("orders", 1)], [topic("orders", 3), topic("bestellungen-ä", 126)], [topic("x" * 126, 1)]],
    ids=["none", "one", "two", "long name"],
)
def test_it_is_what_kio_writes(version: int, topics: list[TopicErrors]) -> None:
    assert all_committed(topics, version) == by_kio(topics, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_is_left_to_others(version: int) -> None:
    topics = [topic("orders", 2), topic("payments", 2, ErrorCode.offset_metadata_too_large)]
    assert all_committed(topics, version) is None


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("many", [[topic("orders", 127)], [topic("orders", 1)] * 127])
def test_longer_lengths_are_left_to_others(version: int, many: list[TopicErrors]) -> None:
    assert all_committed(many, version) is None
