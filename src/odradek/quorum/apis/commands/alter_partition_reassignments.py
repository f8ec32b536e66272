"""AlterPartitionReassignments, versions 0 and 1. All that can be done of a request is done together."""

from collections.abc import Iterable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, Reassignment
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE, code_of, message_of
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    if not request.topics:
        return Decision((), _answer_to_nothing(messages))
    wanted = [
        Reassignment(topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    ]
    decision = controller.alter_reassignments(
        wanted, allow_replication_factor_change=_allows_replication_factor_change(request)
    )
    return decision.answered(_response(request, messages, None, decision.response))


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(request, messages, error, (error for topic in request.topics for _ in topic.partitions))


def _allows_replication_factor_change(request: Message) -> bool:
    allows: bool = getattr(request, "allow_replication_factor_change", True)
    return allows


def _answer_to_nothing(messages: Schema) -> Message:
    """As Kafka's, whose fields then have the defaults of their types."""
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
