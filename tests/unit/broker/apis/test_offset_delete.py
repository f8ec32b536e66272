"""OffsetDelete: partitions that the handler rejects."""

from types import SimpleNamespace
from typing import Any, ClassVar, Self

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis import offset_delete
from odradek.core.groups.commands import DeleteOffsets, DeleteOffsetsResponse, PartitionError, TopicErrors
from odradek.server.context import RequestContext
from odradek.wire.schemas import schema
from tests.unit.broker.fake_broker import FakeBroker

OFFSET_DELETE = 47


class _Groups:
    def coordinator_of(self, group_id: str) -> Self:
        return self

    def submit(self, command: DeleteOffsets) -> DeferredResponse:
        topics = tuple(
            TopicErrors(topic.topic, tuple(PartitionError(index, ErrorCode.none) for index in topic.partitions))
            for topic in command.topics
        )
        return DeferredResponse.from_result(DeleteOffsetsResponse(ErrorCode.none, topics))


def delete(broker: FakeBroker, *indexes: int) -> list[tuple[int, ErrorCode]]:
    partitions = [{"partition_index": index} for index in indexes]
    response: Any = broker.request(OFFSET_DELETE, 0, group_id="g", topics=[{"name": "t", "partitions": partitions}])
    (topic,) = response.topics
    return [(one.partition_index, one.error_code) for one in topic.partitions]


def test_unknown_partitions_come_first_in_the_response(broker: FakeBroker) -> None:
    broker.groups = _Groups()
    broker.add_topic("t", 2)
    missing = ErrorCode.unknown_topic_or_partition
    assert delete(broker, 1, 2, 0, 3) == [(2, missing), (3, missing), (1, ErrorCode.none), (0, ErrorCode.none)]


def test_offset_delete_is_linear_in_the_number_of_partitions(broker: FakeBroker) -> None:
    """Of as many as a request may name, that would hold up the node for seconds."""
    broker.groups = _Groups()
    broker.add_topic("t", 1)
    partitions = [SimpleNamespace(partition_index=_Index(number % 2)) for number in range(1_000)]
    request = SimpleNamespace(group_id="g", topics=[SimpleNamespace(name="t", partitions=partitions)])
    context = RequestContext(OFFSET_DELETE, 0, "test", "PLAINTEXT", "127.0.0.1", schema(OFFSET_DELETE, 0))
    _Index.compared = 0
    offset_delete.handle(request, context, broker)
    assert _Index.compared < 10 * len(partitions)


class _Index(int):
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        _Index.compared += 1
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))
