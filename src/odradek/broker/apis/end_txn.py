"""EndTxn, versions 0 to 5: a producer commits or aborts its transaction.

The response is sent when the decision is committed to the log; the markers follow. Since version 5 every end increments
the producer's epoch (transaction version 2), and the response has the next id and epoch.
"""

from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import may_write_transaction
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.apis.transaction_errors import error_for_version
from odradek.broker.ports import BrokerPort
from odradek.core.transactions.commands import EPOCH_INCREMENTS_SINCE, EndTransaction, EndTransactionResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

FENCED_SINCE: Final = 2
FIRST_WITH_EPOCH_INCREMENT: Final = 5


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if context.access.is_restricted and not may_write_transaction(context.access, request.transactional_id):
        return _response(EndTransactionResponse(ErrorCode.transactional_id_authorization_failed), context)
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_INCREMENTS_SINCE if context.version >= FIRST_WITH_EPOCH_INCREMENT else 0,
    )
    return respond_with(broker.transactions.submit(command), lambda response: _response(response, context))


def _response(response: EndTransactionResponse, context: RequestContext) -> Message:
    return context.new(
        "EndTxnResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error_for_version(response.error, context.version, FENCED_SINCE),
        producer_id=response.producer.producer_id,
        producer_epoch=response.producer.producer_epoch,
    )
