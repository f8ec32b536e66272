"""AllocateProducerIds, version 0."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    decision = controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    response = messages.new(
        "AllocateProducerIdsResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id_start=decision.response.first,
        producer_id_len=decision.response.length,
    )
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "AllocateProducerIdsResponse",
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        producer_id_start=0,
        producer_id_len=0,
    )
