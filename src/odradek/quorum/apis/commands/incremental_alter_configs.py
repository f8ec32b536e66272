"""IncrementalAlterConfigs, versions 0 and 1: only what is named changes.

What a broker's own configs may be was judged by the broker that took the request. Resources that are named twice are
refused there too; here the last would win.
"""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.config_answers import answer, in_order, resource_of
from odradek.wire.schemas import Message, Schema

_RESPONSE = "IncrementalAlterConfigsResponse"


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    changes = {
        resource_of(resource): [_change(config) for config in resource.configs] for resource in request.resources
    }
    decision = controller.change_configs(changes, validate_only=request.validate_only)
    response = answer(messages, _RESPONSE, in_order(request, decision.response))
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return answer(messages, _RESPONSE, [(resource_of(resource), error) for resource in request.resources])


def _change(config: Message) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        # Kafka's answer to an operation that nobody knows.
        raise KafkaError(ErrorCode.unknown_server_error) from None
    return Change(config.name, operation, config.value)
