"""BrokerHeartbeat, versions 0 to 2.

The controller remembers the connection of an accepted heartbeat: when it closes, the broker's process may have died.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, Heartbeat
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import NO_CONNECTION, RequestContext
from odradek.wire.schemas import Message, Schema


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    def execute_now(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
        return execute(request, messages, controller, node.clock.monotonic())

    response = await handle_authorized(
        Operation.CLUSTER_ACTION, request, context, node, execute_now, build_error_response
    )
    if response.error_code is ErrorCode.none and context.connection is not NO_CONNECTION:
        node.on_heartbeat(request.broker_id, request.broker_epoch, context.connection)
    return response


def execute(
    request: Message, messages: Schema, controller: ControllerCommands, now: float
) -> ControllerResult[Message]:
    heartbeat = Heartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shutdown=request.want_shut_down,
        offline_directories=tuple(getattr(request, "offline_log_dirs", ())),
        cordoned_directories=getattr(request, "cordoned_log_dirs", None),
    )
    result = controller.heartbeat(heartbeat, now)
    response = messages.new(
        "BrokerHeartbeatResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        is_caught_up=result.response.is_caught_up,
        is_fenced=result.response.is_fenced,
        should_shut_down=result.response.should_shut_down,
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "BrokerHeartbeatResponse",
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        is_caught_up=False,
        is_fenced=True,
        should_shut_down=False,
    )
