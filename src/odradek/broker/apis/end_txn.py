"""EndTxn, versions 0 to 5: a producer commits or aborts its transaction.

It is answered when the decision is on record; the partitions are told afterwards. Since version 5 every end raises the
producer's epoch (transaction version 2), and the answer says who it is from then on.
"""

from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.apis.transaction_errors import for_version
from odradek.broker.ports import BrokerPort
from odradek.core.transactions.commands import EPOCH_INCREMENTS_SINCE, EndTransaction, EndTransactionResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

FENCED_SINCE: Final = 2
EPOCHS_RISE_IN: Final = 5


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_INCREMENTS_SINCE if context.version >= EPOCHS_RISE_IN else 0,
    )
    return respond_with(broker.transactions.submit(command), lambda answer: _response(answer, context))


def _response(answer: EndTransactionResponse, context: RequestContext) -> Message:
    return context.new(
        "EndTxnResponse",
        throttle_time=NOT_THROTTLED,
        error_code=for_version(answer.error, context.version, FENCED_SINCE),
        producer_id=answer.producer.producer_id,
        producer_epoch=answer.producer.producer_epoch,
    )
