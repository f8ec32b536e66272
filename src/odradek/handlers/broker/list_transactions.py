"""ListTransactions, versions 0 to 2: the transactional ids that are coordinated here.

Filtered by state and producer id, since version 1 by how long they are open, since version 2 by a pattern.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    try:
        listed = broker.transactions.list(
            frozenset(request.producer_id_filters),
            request.state_filters,
            getattr(request, "duration_filter", -1),
            getattr(request, "transactional_id_pattern", None),
        )
    except KafkaError as error:
        listed = (error.code, (), ())
    error_code: ErrorCode
    error_code, unknown, transactions = listed
    return context.new(
        "ListTransactionsResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error_code,
        unknown_state_filters=tuple(unknown),
        transaction_states=tuple(
            context.new(
                "TransactionState",
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in transactions
        ),
    )
