"""CreatePartitions, versions 0 to 3."""

from collections import Counter
from collections.abc import Awaitable
from functools import partial

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, NewPartitions
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.quorum.apis.mutation_quota import handle_within_quota
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    execute_as = partial(execute, context.access)
    if not node.client_quotas.is_enabled:
        return node.controller.handle(request, context.schema, execute_as, build_error_response)
    return handle_within_quota(
        request, context, node, execute=execute_as, build_error_response=build_error_response, strict_from=3
    )


def execute(
    access: Access,
    request: Message,
    messages: Schema,
    controller: ControllerCommands,
    quota: MutationQuota = NO_MUTATION_QUOTA,
) -> ControllerResult[Message]:
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, KafkaError | None] = {
        name: KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    }
    new_partitions: list[NewPartitions] = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            if access.is_restricted and not access.allows(Operation.ALTER, ResourceType.TOPIC, topic.name):
                results[topic.name] = KafkaError(ErrorCode.topic_authorization_failed)
            else:
                new_partitions.append(_new_partitions(topic))
    result = controller.create_partitions(new_partitions, validate_only=request.validate_only, quota=quota)
    response = _response(messages, {**results, **result.response})
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
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
