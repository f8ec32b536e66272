"""What is read and written by hand is what kio reads and writes, in every version; what is unusual is left to kio."""

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.core.groups.commands import PartitionError, PartitionOffset, TopicErrors
from odradek.wire.headers import read_request_header
from odradek.wire.offset_commit_codec import read_plain, write_success_response
from odradek.wire.schemas import schema
from tests.apis import Api
from tests.raw_wire import encode_request

VERSIONS = range(2, 11)
TOPIC_ID = UUID(int=77)


def topic(name: str, partitions: int, error: ErrorCode = ErrorCode.none) -> TopicErrors:
    errors = [PartitionError(index, ErrorCode.none) for index in range(partitions - 1)]
    return TopicErrors(name, (*errors, PartitionError(70_000, error)), TOPIC_ID)


def by_kio(topics: list[TopicErrors], version: int) -> bytes:
    messages = schema(8, version)

    def topic_response(one: TopicErrors) -> object:
        partitions = tuple(
            messages.new("OffsetCommitResponsePartition", partition_index=index, error_code=error)
            for index, error in one.partitions
        )
        return messages.new("OffsetCommitResponseTopic", name=one.topic, topic_id=one.topic_id, partitions=partitions)

    return messages.write(
        messages.new("OffsetCommitResponse", throttle_time=NOT_THROTTLED, topics=tuple(map(topic_response, topics)))
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "topics",
    [[], [topic("orders", 1)], [topic("orders", 3), topic("bestellungen-ä", 126)], [topic("x" * 126, 1)]],
    ids=["none", "one", "two", "long name"],
)
def test_offset_commit_response_is_what_kio_encodes(version: int, topics: list[TopicErrors]) -> None:
    assert write_success_response(topics, version) == by_kio(topics, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_offset_commit_response_with_errors_is_left_to_kio(version: int) -> None:
    topics = [topic("orders", 2), topic("payments", 2, ErrorCode.offset_metadata_too_large)]
    assert write_success_response(topics, version) is None


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("many", [[topic("orders", 127)], [topic("orders", 1)] * 127])
def test_offset_commit_response_with_long_lengths_is_left_to_kio(version: int, many: list[TopicErrors]) -> None:
    assert write_success_response(many, version) is None


# ---- requests


def request_by_kio(version: int, **fields: object) -> tuple[bytes, object]:
    """With how kio reads it."""
    request: dict[str, object] = {
        "group_id": "copiers",
        "generation_id_or_member_epoch": 7,
        "member_id": "copier-ä",
        "topics": [request_topic()],
        **fields,
    }
    frame = encode_request(Api.OFFSET_COMMIT, version, 5, request)[4:]
    body = read_request_header(frame).end + 1
    return frame[body:], schema(8, version).read_request(frame, body)[0]


def request_topic(partitions: int = 2, metadata: str | None = "so far") -> dict[str, object]:
    offsets = [
        {
            "partition_index": index,
            "committed_offset": 1 << 40,
            "committed_leader_epoch": index - 1,
            "committed_metadata": metadata,
        }
        for index in range(partitions)
    ]
    return {"name": "orders", "topic_id": TOPIC_ID, "partitions": offsets}


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"group_instance_id": "copier-1", "generation_id_or_member_epoch": -1, "member_id": ""},
        {"topics": []},
        {"topics": [request_topic(0), request_topic(126, None), request_topic(1, "")]},
        {"group_id": "g" * 126},
    ],
    ids=["usual", "static", "no topics", "many", "long name"],
)
def test_offset_commit_request_is_decoded_as_by_kio(version: int, fields: dict[str, object]) -> None:
    body, expected = request_by_kio(version, **fields)
    request = read_plain(bytearray(b"head" + body), 4, version)
    assert request is not None
    for name in ("group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id"):
        assert getattr(request, name) == getattr(expected, name), name
    assert len(request.topics) == len(expected.topics)  # type: ignore[attr-defined]
    for topic, other in zip(request.topics, expected.topics, strict=True):  # type: ignore[attr-defined]
        assert (topic.topic_id, other.topic_id) == (TOPIC_ID,) * 2 if version == 10 else topic.name == other.name
        assert topic.partitions == [
            PartitionOffset(
                one.partition_index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata
            )
            for one in other.partitions
        ]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_unusual_offset_commit_requests_are_left_to_kio(version: int) -> None:
    body, _ = request_by_kio(version)
    assert read_plain(body + b"\0", 0, version) is None
    # A tagged field of the request, where there was none.
    assert read_plain(body[:-1] + b"\1\0\0", 0, version) is None
    for size in range(len(body)):
        assert read_plain(body[:size], 0, version) is None, size
    for fields in (
        {"group_id": "g" * 127},
        {"topics": [request_topic(127)]},
        {"topics": [request_topic(126, "m" * 120)] * 3},
    ):
        assert read_plain(request_by_kio(version, **fields)[0], 0, version) is None
    assert read_plain(body.replace(b"copiers", b"copier\xff"), 0, version) is None


def test_old_versions_of_offset_commit_are_left_to_kio() -> None:
    assert (
        read_plain(encode_request(Api.OFFSET_COMMIT, 7, 5, {"group_id": "g", "member_id": "", "topics": []}), 14, 7)
        is None
    )
