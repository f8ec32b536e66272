"""InitProducerId, versions 0 to 5: an id for an idempotent producer.

Transactions are not served: whoever brings a transactional id hears that its coordinator is not here.
"""

from collections.abc import Awaitable
from datetime import timedelta

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message

_NO_PRODUCER_ID = -1
_NO_PRODUCER_EPOCH = -1


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    producer_id = getattr(request, "producer_id", _NO_PRODUCER_ID)
    producer_epoch = getattr(request, "producer_epoch", _NO_PRODUCER_EPOCH)
    if (producer_id == _NO_PRODUCER_ID) != (producer_epoch == _NO_PRODUCER_EPOCH):
        return _response(context, ErrorCode.invalid_request)
    if request.transactional_id is not None:
        return _response(context, _refuse_transactions(request, broker))
    # A producer that already has an id gets a new one all the same: only transactional ones keep theirs.
    return _next(context, broker)


def _refuse_transactions(request: Message, broker: BrokerPort) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.invalid_request
    timeout_max_ms = broker.config.effective_number("transaction.max.timeout.ms")
    if not timedelta(0) < request.transaction_timeout <= timedelta(milliseconds=timeout_max_ms):
        return ErrorCode.invalid_transaction_timeout
    return ErrorCode.not_coordinator


async def _next(context: RequestContext, broker: BrokerPort) -> Message:
    try:
        return _response(context, ErrorCode.none, await broker.next_producer_id(), 0)
    except KafkaError as error:
        return _response(context, error.code)


def _response(
    context: RequestContext,
    error: ErrorCode,
    producer_id: int = _NO_PRODUCER_ID,
    producer_epoch: int = _NO_PRODUCER_EPOCH,
) -> Message:
    return context.new(
        "InitProducerIdResponse",
        throttle_time=timedelta(0),
        error_code=error,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
