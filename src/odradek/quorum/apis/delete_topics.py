"""DeleteTopics, versions 1 to 6: by name, and from version 6 also by topic id."""

from collections import Counter
from collections.abc import Awaitable
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.quorum.apis.mutation_quota import handle_within_quota
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

_FIRST_VERSION_WITH_DELETION_DISABLED_CODE = 3


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_within_quota(
        request, context, node, execute=execute, build_error_response=build_error_response, strict_from=5
    )


def execute(
    request: Message, messages: Schema, controller: ControllerCommands, quota: MutationQuota = NO_MUTATION_QUOTA
) -> ControllerResult[Message]:
    if not controller.allows_topic_deletion:
        code = ErrorCode.topic_deletion_disabled
        if messages.version < _FIRST_VERSION_WITH_DELETION_DISABLED_CODE:
            code = ErrorCode.invalid_request
        raise KafkaError(code, "Topic deletion is disabled.")
    builder = _ResponseBuilder(messages)
    topics = _find_topics(request, controller, builder)
    result = controller.delete_topics(topics, quota=quota)
    for topic_id, error in result.response.items():
        builder.add(topics[topic_id], topic_id, error)
    return result.with_response(builder.build())


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    builder = _ResponseBuilder(messages)
    for name, topic_id in _topics_of(request):
        builder.add(name, topic_id, KafkaError(error.code))
    return builder.build()


class _ResponseBuilder:
    def __init__(self, messages: Schema) -> None:
        self._messages = messages
        self._results: list[Message] = []

    def add(self, name: str | None, topic_id: UUID | None, error: KafkaError | None) -> None:
        self._results.append(
            self._messages.new(
                "DeletableTopicResult",
                name=name,
                topic_id=topic_id,
                error_code=code_of(error),
                error_message=message_of(error),
            )
        )

    def reject(self, name: str | None, topic_id: UUID | None, reason: str) -> None:
        self.add(name, topic_id, KafkaError(ErrorCode.invalid_request, reason))

    def build(self) -> Message:
        return self._messages.new("DeleteTopicsResponse", throttle_time=NO_THROTTLE, responses=tuple(self._results))


def _topics_of(request: Message) -> list[tuple[str | None, UUID | None]]:
    if hasattr(request, "topic_names"):
        return [(name, None) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _find_topics(request: Message, controller: ControllerCommands, builder: _ResponseBuilder) -> dict[UUID, str]:
    """Ids and names of the topics that exist and that the request names once; adds an error for each of the others."""
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()
    for name, topic_id in _topics_of(request):
        if name is not None and topic_id is not None:
            builder.reject(name, topic_id, "You may not specify both topic name and topic id.")
        elif name is not None:
            names[name] += 1
        elif topic_id is not None:
            ids[topic_id] += 1
        else:
            builder.reject(None, None, "Neither topic name nor id were specified.")
    found: dict[UUID, str] = {}
    for topic_id, count in ids.items():
        known_name = controller.find_topic_name(topic_id)
        if count > 1:
            builder.reject(None, topic_id, "Duplicate topic id.")
        elif known_name is None:
            unknown = KafkaError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
            builder.add(None, topic_id, unknown)
        else:
            found[topic_id] = known_name
    for name, count in names.items():
        known_id = controller.find_topic_id(name)
        if count > 1:
            builder.reject(name, None, "Duplicate topic name.")
        elif known_id is None:
            reason = "This server does not host this topic-partition."
            builder.add(name, None, KafkaError(ErrorCode.unknown_topic_or_partition, reason))
        elif known_id in ids:
            found.pop(known_id, None)
            builder.reject(name, known_id, "The provided topic name maps to an ID that was already supplied.")
        else:
            found[known_id] = name
    return found
