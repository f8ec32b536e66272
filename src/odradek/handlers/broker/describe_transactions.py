"""DescribeTransactions, version 0: how far the transactions of some transactional ids have come."""

from datetime import UTC, datetime, timedelta
from itertools import groupby

from odradek.base.transaction_commands import NO_TIMESTAMP, DescribedTransaction
from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    described = broker.transactions.describe(request.transactional_ids)
    return context.new(
        "DescribeTransactionsResponse",
        throttle_time=NOT_THROTTLED,
        transaction_states=tuple(_state(one, context) for one in described),
    )


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
            context.new("TopicData", topic=topic, partitions=tuple(name.partition for name in names))
            for topic, names in groupby(one.partitions, key=lambda name: name.topic)
        ),
    )
