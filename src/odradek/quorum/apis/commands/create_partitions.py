"""CreatePartitions, versions 0 to 3."""

from collections import Counter

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, NewPartitions
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE, code_of, message_of
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    counts = Counter(topic.name for topic in request.topics)
    wanted = [_new_partitions(topic) for topic in request.topics if counts[topic.name] == 1]
    decision = controller.create_partitions(wanted, validate_only=request.validate_only)
    results = {
        name: KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    }
    response = _response(messages, {**results, **decision.response})
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, {topic.name: error for topic in request.topics})


def _new_partitions(topic: Message) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic=topic.name,
        total=topic.count,
        assignments=None if assignments is None else [tuple(one.broker_ids) for one in assignments],
    )


def _response(messages: Schema, results: dict[str, KafkaError | None]) -> Message:
    return messages.new(
        "CreatePartitionsResponse",
        throttle_time=NO_THROTTLE,
        results=tuple(
            messages.new(
                "CreatePartitionsTopicResult", name=name, error_code=code_of(error), error_message=message_of(error)
            )
            for name, error in results.items()
        ),
    )
