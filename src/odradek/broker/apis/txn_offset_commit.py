"""TxnOffsetCommit, versions 0 to 5: how far a group has come, to hold if a transaction is committed.

The transaction's coordinator is asked first whether the group's offsets belong to it. Since version 5 that makes them
belong to it (transaction version 2).
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
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
from odradek.records.batch import NO_SEQUENCE
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ADDS_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4
LOADING_SINCE: Final = 2


async def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    speaks_of_many = sum(len(topic.partitions) for topic in request.topics) > ENTRIES_PER_TURN_MAX
    topics, rejected = _sort_out(request, broker)
    if speaks_of_many:
        await asyncio.sleep(0)
    answered_topics: Sequence[TopicErrors] = ()
    if topics:
        error = await _verify(request, context, broker) if request.group_id else ErrorCode.none
        if error is ErrorCode.none:
            answered_topics = (await _commit(request, topics, broker)).topics
        else:
            answered_topics = [_rejected(topic, error) for topic in topics]
    response = _response(_merged(request, rejected, answered_topics), context)
    if speaks_of_many:
        await asyncio.sleep(0)
    return response


def _sort_out(request: Message, broker: BrokerPort) -> tuple[list[TopicOffsets], dict[TopicPartition, ErrorCode]]:
    """What may be committed, and what does not exist."""
    topics: list[TopicOffsets] = []
    rejected: dict[TopicPartition, ErrorCode] = {}
    for asked in request.topics:
        topic = broker.image.topics_by_name.get(asked.name)
        offsets = []
        for one in asked.partitions:
            if topic is None or one.partition_index not in topic.partitions:
                rejected[TopicPartition(asked.name, one.partition_index)] = ErrorCode.unknown_topic_or_partition
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
            topics.append(TopicOffsets(asked.name, offsets, topic.id))
    return topics, rejected


async def _verify(request: Message, context: RequestContext, broker: BrokerPort) -> ErrorCode:
    """Whether the group's partition of `__consumer_offsets` has a part in the transaction."""
    index = broker.groups.partition_of(request.group_id)
    partition = broker.partition(CONSUMER_OFFSETS, index)
    if partition is None or not partition.is_leader:
        return ErrorCode.not_coordinator
    joiner = TransactionVerifier(
        broker,
        request.transactional_id,
        adds=context.version >= ADDS_SINCE,
        knows_abortable=context.version >= ABORTABLE_SINCE,
    )
    try:
        asked = joiner.begin(partition, request.producer_id, request.producer_epoch, NO_SEQUENCE)
        if asked is not None:
            error = await joiner.error_of(partition.name)
            if error is not ErrorCode.none:
                # Clients of these versions ask again after this one, and after no other that would fit.
                passing = error is ErrorCode.network_exception
                return ErrorCode.coordinator_load_in_progress if passing else error
            asked.is_confirmed = True
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
    answer: CommitResponse = await broker.groups.submit(command).wait()
    return answer


def _rejected(topic: TopicOffsets, error: ErrorCode) -> TopicErrors:
    return TopicErrors(topic.topic, tuple(PartitionError(one.partition, error) for one in topic.partitions))


def _merged(
    request: Message, rejected: dict[TopicPartition, ErrorCode], answered_topics: Iterable[TopicErrors]
) -> list[TopicErrors]:
    """In the order of the request."""
    errors = dict(rejected)
    for topic in answered_topics:
        for one in topic.partitions:
            errors[TopicPartition(topic.topic, one.partition)] = one.error
    return [
        TopicErrors(
            asked.name,
            tuple(
                PartitionError(one.partition_index, errors[TopicPartition(asked.name, one.partition_index)])
                for one in asked.partitions
            ),
        )
        for asked in request.topics
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
