"""ElectLeaders, versions 0 to 2. Version 0 knows preferred leaders only; without a list it means every partition."""

from collections.abc import Iterable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ElectionKind, PartitionElection, TopicElections
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE, code_of, message_of
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    topics = request.topic_partitions
    if topics is not None and not topics:
        return Decision((), _response(messages, ErrorCode.none, ()))
    decision = controller.elect_leaders(
        _kind(request), None if topics is None else [(topic.topic, tuple(topic.partitions)) for topic in topics]
    )
    return decision.answered(_response(messages, ErrorCode.none, decision.response))


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
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
