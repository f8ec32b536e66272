"""How an API module runs its command on the active controller."""

from collections.abc import Callable

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

Execute = Callable[[Message, Schema, ControllerCommands], ControllerResult[Message]]
BuildErrorResponse = Callable[[Message, Schema, KafkaError], Message]


async def run_command(
    request: Message,
    context: RequestContext,
    node: ControllerNodePort,
    execute: Execute,
    build_error_response: BuildErrorResponse,
) -> Message:
    """Returns once the command's records are committed. A node that is not the active controller responds with
    NOT_CONTROLLER.
    """
    messages = context.schema
    try:
        response: Message = await node.controller.execute(lambda controller: execute(request, messages, controller))
    except KafkaError as error:
        return build_error_response(request, messages, error)
    return response
