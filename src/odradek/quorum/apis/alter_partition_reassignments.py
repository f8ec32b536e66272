"""AlterPartitionReassignments, versions 0 and 1. The valid reassignments of a request start together."""

from collections.abc import Awaitable, Iterable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, Reassignment
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.ALTER, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    if not request.topics:
        return ControllerResult((), _empty_response(messages))
    reassignments = [
        Reassignment(topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    ]
    result = controller.alter_reassignments(
        reassignments, allow_replication_factor_change=_allows_replication_factor_change(request)
    )
    return result.with_response(_response(request, messages, None, result.response))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(request, messages, error, (error for topic in request.topics for _ in topic.partitions))


def _allows_replication_factor_change(request: Message) -> bool:
    allows: bool = getattr(request, "allow_replication_factor_change", True)
    return allows


def _empty_response(messages: Schema) -> Message:
    """As in Kafka, an empty request gets an empty error message instead of null."""
    return messages.new(
        "AlterPartitionReassignmentsResponse",
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=True,
        error_code=ErrorCode.none,
        error_message="",
        responses=(),
    )


def _response(
    request: Message, messages: Schema, error: KafkaError | None, results: Iterable[KafkaError | None]
) -> Message:
    each = iter(results)
    return messages.new(
        "AlterPartitionReassignmentsResponse",
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=_allows_replication_factor_change(request),
        error_code=code_of(error),
        error_message=message_of(error),
        responses=tuple(
            messages.new(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(_partition(messages, one.partition_index, next(each)) for one in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _partition(messages: Schema, index: int, error: KafkaError | None) -> Message:
    return messages.new(
        "ReassignablePartitionResponse",
        partition_index=index,
        error_code=code_of(error),
        error_message=message_of(error),
    )
