"""InitProducerId, versions 0 to 6: an id for an idempotent producer; id and epoch of a transactional one.

Version 6 is for two-phase commit (KIP-939), which Apache Kafka 4.3 has on the wire only. It is served if
`transaction.two.phase.commit.enable` is set: the producer may then keep its open transaction.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.apis.authorization import may_write_transaction
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, milliseconds
from odradek.broker.apis.transaction_errors import error_for_version
from odradek.broker.ports import BrokerPort
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
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
    if context.access.is_restricted:
        denied = _why_denied(request, context.access)
        if denied is not None:
            return _response(InitProducerIdResponse(denied), context)
    current = ProducerIdentity(
        getattr(request, "producer_id", NO_PRODUCER_ID), getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    )
    if (current.producer_id == NO_PRODUCER_ID) != (current.producer_epoch == NO_PRODUCER_EPOCH):
        return _response(InitProducerIdResponse(ErrorCode.invalid_request), context)
    if request.transactional_id is None:
        # Only transactional producers keep their id; an idempotent one always gets a new id.
        return _allocate(context, broker)
    return _init(request, None if current == NO_PRODUCER else current, context, broker)


def _why_denied(request: Message, access: Access) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if transactional_id is None:
        is_allowed = access.allows(
            Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False
        ) or access.allows_any(Operation.WRITE, ResourceType.TOPIC)
        return None if is_allowed else ErrorCode.cluster_authorization_failed
    is_two_phase = getattr(request, "enable2_pc", False)
    if not may_write_transaction(access, transactional_id) or (
        is_two_phase and not access.allows(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return ErrorCode.transactional_id_authorization_failed
    return None


async def _allocate(context: RequestContext, broker: BrokerPort) -> Message:
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


def _response(response: InitProducerIdResponse, context: RequestContext) -> Message:
    return context.new(
        "InitProducerIdResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error_for_version(response.error, context.version, FENCED_SINCE),
        producer_id=response.producer.producer_id,
        producer_epoch=response.producer.producer_epoch,
        ongoing_txn_producer_id=response.ongoing.producer_id,
        ongoing_txn_producer_epoch=response.ongoing.producer_epoch,
    )
