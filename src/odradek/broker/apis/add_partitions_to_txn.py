"""AddPartitionsToTxn, versions 0 to 5: adds partitions to a transaction.

Up to version 3 producers send it for one transaction. Since version 4 partition leaders send it for many transactions,
also to verify that a transaction includes a partition.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics, may_write_transaction
from odradek.broker.apis.coordinator_response import (
    ENTRIES_PER_TURN_MAX,
    NOT_THROTTLED,
    respond_in_turns,
    respond_with_all,
)
from odradek.broker.apis.hosted_partition import is_known
from odradek.broker.apis.transaction_errors import error_for_version
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import INTERNAL_TOPICS
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    AddPartitions,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

FIRST_VERSION_FOR_BROKERS: Final = 4
FENCED_SINCE: Final = 2

_Command = AddPartitions | VerifyPartitions
_Errors = Mapping[TopicPartition, ErrorCode]


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    is_from_broker = context.version >= FIRST_VERSION_FOR_BROKERS
    commands = _commands_of_brokers(request) if is_from_broker else [_command_of_producer(request)]
    topics: AllowedTopics | None = None
    if context.access.is_restricted:
        if is_from_broker:
            if not context.access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                return _reject_all(context)
        elif not may_write_transaction(context.access, commands[0].transactional_id):
            error = ErrorCode.transactional_id_authorization_failed
            return _response(commands, [dict.fromkeys(commands[0].partitions, error)], context)
        else:
            topics = allowed_topics(context.access, Operation.WRITE)

    def submit() -> list[DeferredResponse]:
        return [_submit(command, topics, context, broker) for command in commands]

    def respond(results: list[Any]) -> Message:
        return _response(commands, results, context)

    if sum(len(command.partitions) for command in commands) > ENTRIES_PER_TURN_MAX:
        return respond_in_turns(submit, respond)
    return respond_with_all(submit(), respond)


def _reject_all(context: RequestContext) -> Message:
    return context.new(
        "AddPartitionsToTxnResponse",
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.cluster_authorization_failed,
        results_by_transaction=(),
    )


def _command_of_producer(request: Message) -> _Command:
    return AddPartitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        _partitions(request.v3_and_below_topics),
        0,
    )


def _commands_of_brokers(request: Message) -> list[_Command]:
    return [
        VerifyPartitions(one.transactional_id, one.producer_id, one.producer_epoch, _partitions(one.topics))
        if one.verify_only
        else AddPartitions(
            one.transactional_id, one.producer_id, one.producer_epoch, _partitions(one.topics), EPOCH_INCREMENTS_SINCE
        )
        for one in request.transactions
    ]


def _partitions(topics: tuple[Message, ...]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _submit(
    command: _Command, topics: AllowedTopics | None, context: RequestContext, broker: BrokerPort
) -> DeferredResponse:
    """The coordinator's response; or the error of each partition, where some are invalid."""
    is_from_broker = context.version >= FIRST_VERSION_FOR_BROKERS
    rejected: dict[TopicPartition, ErrorCode] = {}
    for name in command.partitions:
        is_internal = not is_from_broker and name.topic in INTERNAL_TOPICS
        if is_internal or (topics is not None and name.topic not in topics):
            rejected[name] = ErrorCode.topic_authorization_failed
        elif not is_known(*name, broker):
            rejected[name] = ErrorCode.unknown_topic_or_partition
    if rejected:
        return DeferredResponse.from_result(
            {name: rejected.get(name, ErrorCode.operation_not_attempted) for name in command.partitions}
        )
    return broker.transactions.submit(command)


def _errors(command: _Command, result: Any, version: int) -> _Errors:
    if isinstance(result, dict):
        return result
    if isinstance(result, VerifyPartitionsResponse):
        return {name: result.of(name) for name in command.partitions}
    return dict.fromkeys(command.partitions, error_for_version(result.error, version, FENCED_SINCE))


def _response(commands: list[_Command], results: list[Any], context: RequestContext) -> Message:
    topics_of = [
        _topics(_errors(command, result, context.version), context)
        for command, result in zip(commands, results, strict=True)
    ]
    if context.version < FIRST_VERSION_FOR_BROKERS:
        return context.new(
            "AddPartitionsToTxnResponse",
            throttle_time=NOT_THROTTLED,
            results_by_topic_v3_and_below=topics_of[0],
        )
    return context.new(
        "AddPartitionsToTxnResponse",
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            context.new("AddPartitionsToTxnResult", transactional_id=command.transactional_id, topic_results=topics)
            for command, topics in zip(commands, topics_of, strict=True)
        ),
    )


def _topics(errors: _Errors, context: RequestContext) -> tuple[Message, ...]:
    return tuple(
        context.new(
            "AddPartitionsToTxnTopicResult",
            name=topic,
            results_by_partition=tuple(
                context.new(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=errors[TopicPartition(topic, index)],
                )
                for index in indexes
            ),
        )
        for topic, indexes in partitions_by_topic(errors).items()
    )
