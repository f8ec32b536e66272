"""AlterUserScramCredentials, version 0: one change per user."""

from collections.abc import Iterable

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, ScramDeletion, ScramUpsertion
from odradek.core.security.resources import Operation
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message, Schema


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    denial = find_cluster_denial(context, Operation.ALTER)
    if denial is not None:
        return build_error_response(request, context.schema, denial)
    return await node.controller.handle(request, context.schema, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    result = controller.alter_scram_credentials(
        [ScramDeletion(one.name, one.mechanism) for one in request.deletions],
        [
            ScramUpsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
            for one in request.upsertions
        ],
    )
    return result.with_response(_response(messages, result.response.items()))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    users = {one.name for one in (*request.deletions, *request.upsertions)}
    return _response(messages, ((user, error) for user in sorted(users)))


def _response(messages: Schema, results: Iterable[tuple[str, KafkaError | None]]) -> Message:
    return messages.new(
        "AlterUserScramCredentialsResponse",
        throttle_time=NO_THROTTLE,
        results=tuple(
            messages.new(
                "AlterUserScramCredentialsResult",
                user=user,
                error_code=code_of(error),
                error_message=message_of(error),
            )
            for user, error in results
        ),
    )
