"""AlterConfigs, versions 0 to 2: a config that the request does not name returns to its default."""

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.quorum.apis.alter_config_resources import (
    alter_resources,
    build_error_response,
    build_response,
    resource_of,
)
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

__all__ = ["build_error_response", "execute", "handle"]


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return alter_resources(request, context, node, execute=execute, alter_loggers=_reject_loggers)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    configs = {
        resource_of(resource): {config.name: config.value or "" for config in resource.configs}
        for resource in request.resources
    }
    result = controller.replace_configs(configs, validate_only=request.validate_only)
    return result.with_response(build_response(request, messages, result.response))


def _reject_loggers(resource: Message) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, "Unexpected resource type BROKER_LOGGER.")
