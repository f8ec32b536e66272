"""ListTransactions, versions 0 to 2: the transactional ids whose coordinator is this broker.

Filters: state and producer id, since version 1 duration, since version 2 a pattern.
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.security.resources import Operation, ResourceType
from odradek.core.transactions.commands import ListedTransaction
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_PER_TURN_MAX: Final = 1000


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    try:
        error, unknown, transactions = broker.transactions.list(
            frozenset(request.producer_id_filters),
            request.state_filters,
            getattr(request, "duration_filter", -1),
            getattr(request, "transactional_id_pattern", None),
        )
    except KafkaError as rejection:
        return _response(rejection.code, (), (), context)
    access = context.access
    is_restricted = access.is_restricted

    def describe(some: Sequence[ListedTransaction]) -> list[Message]:
        return [
            _state(one, context)
            for one in some
            if not is_restricted
            or access.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one.transactional_id)
        ]

    return respond_in_slices(
        transactions,
        _PER_TURN_MAX,
        describe,
        lambda states: _response(error, unknown, states, context),
    )


def _response(error: ErrorCode, unknown: Sequence[str], states: Sequence[Message], context: RequestContext) -> Message:
    return context.new(
        "ListTransactionsResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error,
        unknown_state_filters=tuple(unknown),
        transaction_states=tuple(states),
    )


def _state(one: ListedTransaction, context: RequestContext) -> Message:
    return context.new(
        "TransactionState",
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        transaction_state=one.state,
    )
