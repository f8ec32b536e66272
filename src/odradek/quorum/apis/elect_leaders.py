"""ElectLeaders, versions 0 to 2. Version 0 has preferred elections only. Without a list it means every partition."""

from collections.abc import Awaitable, Iterable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import (
    ControllerCommands,
    ControllerResult,
    ElectionKind,
    PartitionElection,
    TopicElections,
)
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.ALTER, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    topics = request.topic_partitions
    if topics is not None and not topics:
        return ControllerResult((), _response(messages, ErrorCode.none, ()))
    result = controller.elect_leaders(
        _kind(request), None if topics is None else [(topic.topic, tuple(topic.partitions)) for topic in topics]
    )
    return result.with_response(_response(messages, ErrorCode.none, result.response))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    results = [
        TopicElections(topic.topic, [PartitionElection(partition, error) for partition in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    return _response(messages, error.code, results)


def _kind(request: Message) -> ElectionKind:
    number = getattr(request, "election_type", ElectionKind.PREFERRED)
    try:
        return ElectionKind(number)
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_request, f"Unknown election type {number}") from error


def _response(messages: Schema, code: ErrorCode, results: Iterable[TopicElections]) -> Message:
    return messages.new(
        "ElectLeadersResponse",
        throttle_time=NO_THROTTLE,
        error_code=code,
        replica_election_results=tuple(
            messages.new(
                "ReplicaElectionResult",
                topic=result.topic,
                partition_result=tuple(
                    messages.new(
                        "PartitionResult",
                        partition_id=one.partition,
                        error_code=code_of(one.error),
                        error_message=message_of(one.error),
                    )
                    for one in result.partitions
                ),
            )
            for result in results
        ),
    )
