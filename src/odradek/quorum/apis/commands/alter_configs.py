"""AlterConfigs, versions 0 to 2: what is not named goes back to its default.

What a broker's own configs may be was judged by the broker that took the request. Resources that are named twice are
refused there too; here the last would win.
"""

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.config_answers import answer, in_order, resource_of
from odradek.wire.schemas import Message, Schema

_RESPONSE = "AlterConfigsResponse"


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    configs = {
        resource_of(resource): {config.name: config.value or "" for config in resource.configs}
        for resource in request.resources
    }
    decision = controller.replace_configs(configs, validate_only=request.validate_only)
    response = answer(messages, _RESPONSE, in_order(request, decision.response))
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return answer(messages, _RESPONSE, [(resource_of(resource), error) for resource in request.resources])
