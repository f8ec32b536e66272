"""InitProducerId, versions 0 to 6: an id for an idempotent producer; id and epoch of a transactional one.

Version 6 is for transactions in two phases (KIP-939), which Apache Kafka 4.3 has on the wire only. It is served where
`transaction.two.phase.commit.enable` is set: an open transaction may then be kept for the producer that asks.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, milliseconds
from odradek.broker.apis.transaction_errors import for_version
from odradek.broker.ports import BrokerPort
from odradek.core.transactions.commands import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdResponse,
    ProducerIdentity,
)
from odradek.core.transactions.commands import InitProducerId as Init
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

FENCED_SINCE: Final = 4


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    asked = ProducerIdentity(
        getattr(request, "producer_id", NO_PRODUCER_ID), getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    )
    if (asked.producer_id == NO_PRODUCER_ID) != (asked.producer_epoch == NO_PRODUCER_EPOCH):
        return _response(InitProducerIdResponse(ErrorCode.invalid_request), context)
    if request.transactional_id is None:
        # A producer that already has an id gets a new one all the same: only transactional ones keep theirs.
        return _next(context, broker)
    return _init(request, None if asked == NO_PRODUCER else asked, context, broker)


async def _next(context: RequestContext, broker: BrokerPort) -> Message:
    try:
        return _response(
            InitProducerIdResponse(ErrorCode.none, ProducerIdentity(await broker.next_producer_id(), 0)), context
        )
    except KafkaError as error:
        return _response(InitProducerIdResponse(error.code), context)


async def _init(
    request: Message, expected: ProducerIdentity | None, context: RequestContext, broker: BrokerPort
) -> Message:
    command = Init(
        request.transactional_id,
        milliseconds(request.transaction_timeout),
        expected,
        getattr(request, "enable2_pc", False),
        getattr(request, "keep_prepared_txn", False),
    )
    if command.transactional_id:
        try:
            await broker.transactions.stock_up()
        except KafkaError as error:
            return _response(InitProducerIdResponse(error.code), context)
    return _response(await broker.transactions.submit(command).wait(), context)


def _response(answer: InitProducerIdResponse, context: RequestContext) -> Message:
    return context.new(
        "InitProducerIdResponse",
        throttle_time=NOT_THROTTLED,
        error_code=for_version(answer.error, context.version, FENCED_SINCE),
        producer_id=answer.producer.producer_id,
        producer_epoch=answer.producer.producer_epoch,
        ongoing_txn_producer_id=answer.ongoing.producer_id,
        ongoing_txn_producer_epoch=answer.ongoing.producer_epoch,
    )
