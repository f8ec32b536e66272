"""DeleteTopics, versions 1 to 6: by name, and from version 6 also by topic id.

A client that may not describe a topic gets the same response whether it exists or not. Results are in the order of the
request within each kind of error, which does not depend on what the client must not see: Kafka shuffles them instead.
"""

from collections import Counter
from collections.abc import Awaitable
from functools import partial
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.quorum.apis.mutation_quota import handle_within_quota
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster, denial_of
from odradek.wire.schemas import Message, Schema

_FIRST_VERSION_WITH_DELETION_DISABLED_CODE = 3


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    execute_as = partial(execute, context.access)
    if not node.client_quotas.is_enabled:
        return node.controller.handle(request, context.schema, execute_as, build_error_response)
    return handle_within_quota(
        request, context, node, execute=execute_as, build_error_response=build_error_response, strict_from=5
    )


def execute(
    access: Access,
    request: Message,
    messages: Schema,
    controller: ControllerCommands,
    quota: MutationQuota = NO_MUTATION_QUOTA,
) -> ControllerResult[Message]:
    if not controller.allows_topic_deletion:
        code = ErrorCode.topic_deletion_disabled
        if messages.version < _FIRST_VERSION_WITH_DELETION_DISABLED_CODE:
            code = ErrorCode.invalid_request
        raise KafkaError(code, "Topic deletion is disabled.")
    builder = _ResponseBuilder(messages)
    topics = _find_topics(request, _Permissions(access), controller, builder)
    result = controller.delete_topics(topics, quota=quota)
    for topic_id, error in result.response.items():
        builder.add(topics[topic_id], topic_id, error)
    return result.with_response(builder.build())


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    builder = _ResponseBuilder(messages)
    for name, topic_id in _topics_of(request):
        builder.add(name, topic_id, KafkaError(error.code))
    return builder.build()


class _Permissions:
    def __init__(self, access: Access) -> None:
        self._access: Final = access
        # Not an operation of the cluster that clients are shown, yet an ACL for it counts.
        self._allows_all: Final = allows_cluster(access, Operation.DELETE, logs_denial=False)

    def may_describe(self, name: str) -> bool:
        return self._allows_all or self._access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def may_delete(self, name: str) -> bool:
        return self._allows_all or self._access.allows(Operation.DELETE, ResourceType.TOPIC, name)


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

    def deny(self, name: str | None, topic_id: UUID | None) -> None:
        self.add(name, topic_id, denial_of(ResourceType.TOPIC))

    def build(self) -> Message:
        return self._messages.new("DeleteTopicsResponse", throttle_time=NO_THROTTLE, responses=tuple(self._results))


def _topics_of(request: Message) -> list[tuple[str | None, UUID | None]]:
    if hasattr(request, "topic_names"):
        return [(name, None) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _find_topics(
    request: Message, permissions: _Permissions, controller: ControllerCommands, builder: _ResponseBuilder
) -> dict[UUID, str]:
    """Ids and names of the topics that exist, that the request names once, and that the client may delete; adds an
    error for each of the others."""
    names, ids = _count_topics(request, builder)
    found: dict[UUID, str] = {}
    for topic_id, count in ids.items():
        if count > 1:
            builder.reject(None, topic_id, "Duplicate topic id.")
        elif (known_name := controller.find_topic_name(topic_id)) is None:
            unknown = KafkaError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
            builder.add(None, topic_id, unknown)
        elif not permissions.may_delete(known_name):
            builder.deny(known_name if permissions.may_describe(known_name) else None, topic_id)
        else:
            found[topic_id] = known_name
    for name, count in names.items():
        if count > 1:
            builder.reject(name, None, "Duplicate topic name.")
        elif not permissions.may_describe(name):
            builder.deny(name, None)
        elif (known_id := controller.find_topic_id(name)) is None:
            reason = "This server does not host this topic-partition."
            builder.add(name, None, KafkaError(ErrorCode.unknown_topic_or_partition, reason))
        elif not permissions.may_delete(name):
            builder.deny(name, None)
        elif known_id in ids:
            found.pop(known_id, None)
            builder.reject(name, known_id, "The provided topic name maps to an ID that was already supplied.")
        else:
            found[known_id] = name
    return found


def _count_topics(request: Message, builder: _ResponseBuilder) -> tuple[Counter[str], Counter[UUID]]:
    """How often the request contains each name and each ID; adds an error for topics that have both or neither."""
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
    return names, ids
