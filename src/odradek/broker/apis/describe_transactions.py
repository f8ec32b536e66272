"""DescribeTransactions, version 0: the state of transactional ids."""

from collections.abc import Awaitable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import partitions_by_topic
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.security.access import Access
from odradek.core.security.resources import Operation, ResourceType
from odradek.core.transactions.commands import NO_TIMESTAMP, DescribedTransaction
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_TURN_MAX: Final = 500


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    topics = allowed_topics(context.access, Operation.DESCRIBE)

    def describe(some: Sequence[str]) -> list[Message]:
        described = (
            broker.transactions.describe(some) if topics is None else _describe_allowed(some, context.access, broker)
        )
        return [_state(one, topics, context) for one in described]

    return respond_in_slices(
        request.transactional_ids,
        _PER_TURN_MAX,
        describe,
        lambda states: _response(states, context),
    )


def _describe_allowed(
    transactional_ids: Sequence[str], access: Access, broker: BrokerPort
) -> Iterator[DescribedTransaction]:
    for one in transactional_ids:
        if access.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one):
            yield from broker.transactions.describe((one,))
        else:
            yield DescribedTransaction(one, ErrorCode.transactional_id_authorization_failed)


def _response(states: Sequence[Message], context: RequestContext) -> Message:
    return context.new("DescribeTransactionsResponse", throttle_time=NOT_THROTTLED, transaction_states=tuple(states))


def _state(one: DescribedTransaction, allowed: AllowedTopics | None, context: RequestContext) -> Message:
    return context.new(
        "TransactionState",
        error_code=one.error,
        transactional_id=one.transactional_id,
        transaction_state=one.state,
        transaction_timeout=timedelta(milliseconds=one.timeout_ms),
        transaction_start_time=(
            None if one.start_ms == NO_TIMESTAMP else _EPOCH + timedelta(milliseconds=one.start_ms)
        ),
        producer_id=one.producer.producer_id,
        producer_epoch=one.producer.producer_epoch,
        topics=tuple(
            context.new("TopicData", topic=topic, partitions=indexes)
            for topic, indexes in partitions_by_topic(one.partitions).items()
            if allowed is None or topic in allowed
        ),
    )
