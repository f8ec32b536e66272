"""CreateTopics, versions 2 to 7."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import METADATA_TOPIC
from odradek.core.controller.commands import ControllerCommands, ControllerResult, NewTopic, TopicCreated
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.quorum.apis.mutation_quota import handle_within_quota
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    execute_as = partial(execute, context.access)
    if not node.client_quotas.is_enabled:
        return node.controller.handle(request, context.schema, execute_as, build_error_response)
    return handle_within_quota(
        request, context, node, execute=execute_as, build_error_response=build_error_response, strict_from=6
    )


def execute(
    access: Access,
    request: Message,
    messages: Schema,
    controller: ControllerCommands,
    quota: MutationQuota = NO_MUTATION_QUOTA,
) -> ControllerResult[Message]:
    counts = Counter(topic.name for topic in request.topics)
    valid = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC]
    may_create = _allowed_topics(access)
    allowed = {topic.name: topic for topic in valid if may_create(topic.name)}
    result = controller.create_topics(
        [_new_topic(topic) for topic in allowed.values()], validate_only=request.validate_only, quota=quota
    )
    results: dict[str, TopicCreated | KafkaError] = dict(result.response)
    for name, count in counts.items():
        if count > 1:
            results[name] = KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
        elif name == METADATA_TOPIC:
            results[name] = KafkaError(
                ErrorCode.invalid_request, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            )
        elif name not in allowed:
            results[name] = KafkaError(ErrorCode.topic_authorization_failed, "Authorization failed.")
    built: dict[int, tuple[Message, ...]] = {}
    topics = tuple(_result(messages, name, created, built, access) for name, created in results.items())
    response = messages.new("CreateTopicsResponse", throttle_time=NO_THROTTLE, topics=topics)
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    topics = tuple(_result(messages, topic.name, error, {}, UNRESTRICTED) for topic in request.topics)
    return messages.new("CreateTopicsResponse", throttle_time=NO_THROTTLE, topics=topics)


def _allowed_topics(access: Access) -> Callable[[str], bool]:
    """Which topics the principal may create: every one if it may create resources of the cluster."""
    if not access.is_restricted or allows_cluster(access, Operation.CREATE, logs_denial=False):
        return lambda _: True
    return lambda name: access.allows(Operation.CREATE, ResourceType.TOPIC, name)


def _new_topic(topic: Message) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(one.partition_index, tuple(one.broker_ids)) for one in topic.assignments],
        configs=[(config.name, config.value) for config in topic.configs],
    )


def _result(
    messages: Schema,
    name: str,
    result: TopicCreated | KafkaError,
    built: dict[int, tuple[Message, ...]],
    access: Access,
) -> Message:
    """`built` caches the configs that several topics share, which are the longest part of the response."""
    if isinstance(result, KafkaError):
        return messages.new(
            "CreatableTopicResult",
            name=name,
            topic_id=None,
            error_code=result.code,
            error_message=result.message,
            topic_config_error_code=0,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
        )
    if access.is_restricted and not access.allows(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, logs_denial=False
    ):
        return messages.new(
            "CreatableTopicResult",
            name=name,
            topic_id=result.topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=ErrorCode.topic_authorization_failed.value,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
        )
    return messages.new(
        "CreatableTopicResult",
        name=name,
        topic_id=result.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=result.partition_count,
        replication_factor=result.replication_factor,
        configs=built.get(id(result.configs)) or built.setdefault(id(result.configs), _configs(messages, result)),
    )


def _configs(messages: Schema, result: TopicCreated) -> tuple[Message, ...]:
    if not messages.knows("CreatableTopicConfigs"):
        return ()
    return tuple(
        messages.new(
            "CreatableTopicConfigs",
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in result.configs
    )
