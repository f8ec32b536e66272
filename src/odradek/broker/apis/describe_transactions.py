"""DescribeTransactions, version 0: the state of transactional ids."""

from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from odradek.base.ids import partitions_by_topic
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.transactions.commands import NO_TIMESTAMP, DescribedTransaction
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_TURN_MAX: Final = 500


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    return respond_in_slices(
        request.transactional_ids,
        _PER_TURN_MAX,
        lambda some: [_state(one, context) for one in broker.transactions.describe(some)],
        lambda states: _response(states, context),
    )


def _response(states: Sequence[Message], context: RequestContext) -> Message:
    return context.new("DescribeTransactionsResponse", throttle_time=NOT_THROTTLED, transaction_states=tuple(states))


def _state(one: DescribedTransaction, context: RequestContext) -> Message:
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
        ),
    )
