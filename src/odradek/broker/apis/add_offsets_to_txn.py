"""AddOffsetsToTxn, versions 0 to 4: adds the offsets of a group to a transaction.

The transaction includes the group's partition of `__consumer_offsets`. Since transaction version 2, TxnOffsetCommit
adds it instead.
"""

from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.apis.authorization import may_read_group, may_write_transaction
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.apis.transaction_errors import error_for_version
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS
from odradek.core.transactions.commands import AddPartitions, AddPartitionsResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

FENCED_SINCE: Final = 2


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if context.access.is_restricted:
        if not may_write_transaction(context.access, request.transactional_id):
            return _response(AddPartitionsResponse(ErrorCode.transactional_id_authorization_failed), context)
        if not may_read_group(context.access, request.group_id):
            return _response(AddPartitionsResponse(ErrorCode.group_authorization_failed), context)
    offsets = TopicPartition(CONSUMER_OFFSETS, broker.groups.partition_of(request.group_id))
    command = AddPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, frozenset((offsets,)), 0
    )
    return respond_with(broker.transactions.submit(command), lambda response: _response(response, context))


def _response(response: AddPartitionsResponse, context: RequestContext) -> Message:
    return context.new(
        "AddOffsetsToTxnResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error_for_version(response.error, context.version, FENCED_SINCE),
    )
