"""BrokerHeartbeat, versions 0 to 2."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, Heartbeat
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    heartbeat = Heartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shutdown=request.want_shut_down,
        offline_directories=tuple(getattr(request, "offline_log_dirs", ())),
        cordoned_directories=getattr(request, "cordoned_log_dirs", None),
    )
    decision = controller.heartbeat(heartbeat, now)
    response = messages.new(
        "BrokerHeartbeatResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        is_caught_up=decision.response.is_caught_up,
        is_fenced=decision.response.is_fenced,
        should_shut_down=decision.response.should_shut_down,
    )
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "BrokerHeartbeatResponse",
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        is_caught_up=False,
        is_fenced=True,
        should_shut_down=False,
    )
