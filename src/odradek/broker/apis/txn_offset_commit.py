"""TxnOffsetCommit, versions 0 to 5: commits offsets of a group as part of a transaction.

First it verifies with the transaction coordinator that the transaction includes the group's offsets. Since version 5
(transaction version 2) it adds them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics, may_read_group, may_write_transaction
from odradek.broker.apis.coordinator_response import ENTRIES_PER_TURN_MAX, NOT_THROTTLED
from odradek.broker.apis.transaction_verification import TransactionVerifier
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import (
    CommitOffsetsInTransaction,
    CommitResponse,
    PartitionError,
    PartitionOffset,
    TopicErrors,
    TopicOffsets,
)
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation
from odradek.records.batch import NO_SEQUENCE
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ADDS_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4
LOADING_SINCE: Final = 2


async def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    if context.access.is_restricted:
        denied = _why_denied(request, context.access)
        if denied is not None:
            return _response([_reject_all(topic, denied) for topic in request.topics], context)
    is_large = sum(len(topic.partitions) for topic in request.topics) > ENTRIES_PER_TURN_MAX
    topics, rejected = _split(request, allowed_topics(context.access, Operation.READ), broker)
    if is_large:
        await asyncio.sleep(0)
    committed_topics: Sequence[TopicErrors] = ()
    if topics:
        error = await _verify(request, context, broker) if request.group_id else ErrorCode.none
        if error is ErrorCode.none:
            committed_topics = (await _commit(request, topics, broker)).topics
        else:
            committed_topics = [_reject(topic, error) for topic in topics]
    response = _response(_merge(request, rejected, committed_topics), context)
    if is_large:
        await asyncio.sleep(0)
    return response


def _why_denied(request: Message, access: Access) -> ErrorCode | None:
    """The transactional id stands for the producer id, which has no permissions of its own."""
    if not may_write_transaction(access, request.transactional_id):
        return ErrorCode.transactional_id_authorization_failed
    return None if may_read_group(access, request.group_id) else ErrorCode.group_authorization_failed


def _reject_all(topic: Message, error: ErrorCode) -> TopicErrors:
    return TopicErrors(topic.name, tuple(PartitionError(one.partition_index, error) for one in topic.partitions))


def _split(
    request: Message, allowed: AllowedTopics | None, broker: BrokerPort
) -> tuple[list[TopicOffsets], dict[TopicPartition, ErrorCode]]:
    """The offsets to commit, and the errors of denied and unknown partitions."""
    topics: list[TopicOffsets] = []
    rejected: dict[TopicPartition, ErrorCode] = {}
    for requested in request.topics:
        if allowed is not None and requested.name not in allowed:
            for one in requested.partitions:
                rejected[TopicPartition(requested.name, one.partition_index)] = ErrorCode.topic_authorization_failed
            continue
        topic = broker.image.topics_by_name.get(requested.name)
        offsets = []
        for one in requested.partitions:
            if topic is None or one.partition_index not in topic.partitions:
                rejected[TopicPartition(requested.name, one.partition_index)] = ErrorCode.unknown_topic_or_partition
            else:
                offsets.append(
                    PartitionOffset(
                        one.partition_index,
                        one.committed_offset,
                        getattr(one, "committed_leader_epoch", -1),
                        one.committed_metadata,
                    )
                )
        if topic is not None and offsets:
            topics.append(TopicOffsets(requested.name, offsets, topic.id))
    return topics, rejected


async def _verify(request: Message, context: RequestContext, broker: BrokerPort) -> ErrorCode:
    """Verifies that the transaction includes the group's partition of `__consumer_offsets`."""
    index = broker.groups.partition_of(request.group_id)
    partition = broker.partition(CONSUMER_OFFSETS, index)
    if partition is None or not partition.is_leader:
        return ErrorCode.not_coordinator
    verifier = TransactionVerifier(
        broker,
        request.transactional_id,
        adds=context.version >= ADDS_SINCE,
        knows_abortable=context.version >= ABORTABLE_SINCE,
    )
    try:
        requested = verifier.begin(partition, request.producer_id, request.producer_epoch, NO_SEQUENCE)
        if requested is not None:
            error = await verifier.error_of(partition.name)
            if error is not ErrorCode.none:
                # Clients retry after this error, and after no other suitable one.
                is_retriable = error is ErrorCode.network_exception
                return ErrorCode.coordinator_load_in_progress if is_retriable else error
            requested.is_confirmed = True
    except KafkaError as error:
        return error.code
    return ErrorCode.none


async def _commit(request: Message, topics: list[TopicOffsets], broker: BrokerPort) -> CommitResponse:
    command = CommitOffsetsInTransaction(
        request.group_id,
        getattr(request, "generation_id", -1),
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        request.producer_id,
        request.producer_epoch,
        topics,
    )
    response: CommitResponse = await broker.groups.coordinator_of(command.group_id).submit(command).wait()
    return response


def _reject(topic: TopicOffsets, error: ErrorCode) -> TopicErrors:
    return TopicErrors(topic.topic, tuple(PartitionError(one.partition, error) for one in topic.partitions))


def _merge(
    request: Message, rejected: dict[TopicPartition, ErrorCode], committed_topics: Iterable[TopicErrors]
) -> list[TopicErrors]:
    """All errors in the order of the request."""
    errors = dict(rejected)
    for topic in committed_topics:
        for one in topic.partitions:
            errors[TopicPartition(topic.topic, one.partition)] = one.error
    return [
        TopicErrors(
            requested.name,
            tuple(
                PartitionError(one.partition_index, errors[TopicPartition(requested.name, one.partition_index)])
                for one in requested.partitions
            ),
        )
        for requested in request.topics
    ]


def _response(topics: list[TopicErrors], context: RequestContext) -> Message:
    return context.new(
        "TxnOffsetCommitResponse",
        throttle_time=NOT_THROTTLED,
        topics=tuple(
            context.new(
                "TxnOffsetCommitResponseTopic",
                name=topic.topic,
                partitions=tuple(
                    context.new(
                        "TxnOffsetCommitResponsePartition",
                        partition_index=one.partition,
                        error_code=_for_version(one.error, context.version),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _for_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.coordinator_load_in_progress and version < LOADING_SINCE:
        return ErrorCode.coordinator_not_available
    return error
