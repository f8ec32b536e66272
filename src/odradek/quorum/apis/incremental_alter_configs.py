"""IncrementalAlterConfigs, versions 0 and 1: only the configs that the request names change."""

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.security.resources import Operation as ClusterOperation
from odradek.core.security.resources import ResourceType
from odradek.quorum.apis.alter_config_resources import (
    alter_resources,
    build_error_response,
    build_response,
    resource_of,
)
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.config_operations import read_changes
from odradek.server.apis.logger_levels import change_levels
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster, denial_of
from odradek.wire.schemas import Message, Schema

__all__ = ["build_error_response", "execute", "handle"]


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    def alter_loggers(resource: Message) -> KafkaError | None:
        try:
            # As in Kafka, more than on a broker, which needs ALTER_CONFIGS.
            if not allows_cluster(context.access, ClusterOperation.CLUSTER_ACTION):
                return denial_of(ResourceType.CLUSTER)
            changes = read_changes(resource)
            change_levels(resource.resource_name, changes, node.node_id, validate_only=request.validate_only)
        except KafkaError as error:
            return error
        return None

    return alter_resources(request, context, node, execute=execute, alter_loggers=alter_loggers)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    changes = {
        resource_of(resource): [_change(config) for config in resource.configs] for resource in request.resources
    }
    result = controller.change_configs(changes, validate_only=request.validate_only)
    return result.with_response(build_response(request, messages, result.response))


def _change(config: Message) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        # Kafka's response to an unknown operation.
        raise KafkaError(ErrorCode.unknown_server_error) from None
    return Change(config.name, operation, config.value)
