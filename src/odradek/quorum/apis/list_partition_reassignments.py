"""ListPartitionReassignments, version 0. Without a list it returns every ongoing reassignment."""

from collections.abc import Awaitable, Iterable

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, TopicReassignments
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.DESCRIBE, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    topics = request.topics
    ongoing = controller.list_reassignments(
        None if topics is None else [(topic.name, tuple(topic.partition_indexes)) for topic in topics]
    )
    return ControllerResult((), _response(messages, None, (_topic(messages, topic) for topic in ongoing)))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    topics = (
        messages.new(
            "OngoingTopicReassignment",
            name=topic.name,
            partitions=tuple(_partition(messages, index) for index in topic.partition_indexes),
        )
        for topic in request.topics or ()
    )
    return _response(messages, error, topics)


def _topic(messages: Schema, topic: TopicReassignments) -> Message:
    return messages.new(
        "OngoingTopicReassignment",
        name=topic.topic,
        partitions=tuple(
            _partition(messages, index, one.replicas, one.adding, one.removing) for index, one in topic.partitions
        ),
    )


def _partition(
    messages: Schema,
    index: int,
    replicas: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Message:
    return messages.new(
        "OngoingPartitionReassignment",
        partition_index=index,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
    )


def _response(messages: Schema, error: KafkaError | None, topics: Iterable[Message]) -> Message:
    return messages.new(
        "ListPartitionReassignmentsResponse",
        throttle_time=NO_THROTTLE,
        error_code=code_of(error),
        error_message=message_of(error),
        topics=tuple(topics),
    )
