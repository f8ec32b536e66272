"""AlterClientQuotas, versions 0 and 1: sets and removes limits of users, client IDs and IP addresses."""

from collections.abc import Awaitable, Iterable

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, QuotaAlteration
from odradek.core.quotas.entities import entity_key
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.ALTER_CONFIGS, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    alterations = [
        QuotaAlteration(
            entity_key((part.entity_type, part.entity_name) for part in entry.entity),
            [(change.key, None if change.remove else change.value) for change in entry.ops],
        )
        for entry in request.entries
    ]
    result = controller.alter_client_quotas(alterations, validate_only=request.validate_only)
    return result.with_response(_response(messages, result.response.items()))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    entities = ([(part.entity_type, part.entity_name) for part in entry.entity] for entry in request.entries)
    return _response(messages, ((entity, error) for entity in entities))


def _response(
    messages: Schema, results: Iterable[tuple[Iterable[tuple[str, str | None]], KafkaError | None]]
) -> Message:
    response = messages.response_type
    entries = tuple(
        messages.new(
            "EntryData",
            error_code=code_of(error),
            error_message=message_of(error),
            entity=tuple(messages.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity),
        )
        for entity, error in results
    )
    return response(throttle_time=NO_THROTTLE, entries=entries)
