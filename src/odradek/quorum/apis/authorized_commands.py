"""Runs commands of the active controller for requests that need one operation on the cluster."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.security.resources import Operation
from odradek.quorum.ports import BuildErrorResponse, ControllerNodePort, Execute
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message


async def handle_authorized(
    needed: Operation,
    request: Message,
    context: RequestContext,
    node: ControllerNodePort,
    execute: Execute,
    build_error_response: BuildErrorResponse,
) -> Message:
    """Whether the request is allowed is decided before this node finds out whether its controller is active."""
    denial = find_cluster_denial(context, needed)
    if denial is not None:
        return build_error_response(request, context.schema, denial)
    return await node.controller.handle(request, context.schema, execute, build_error_response)


async def handle_with_authorizer(
    needed: Operation,
    request: Message,
    context: RequestContext,
    node: ControllerNodePort,
    execute: Execute,
    build_error_response: BuildErrorResponse,
) -> Message:
    """As `handle_authorized`, for changes of ACLs: they are rejected where no authorizer would apply them."""
    if not node.config.authorizer_class_name:
        error = KafkaError(ErrorCode.security_disabled, "No Authorizer is configured.")
        return build_error_response(request, context.schema, error)
    return await handle_authorized(needed, request, context, node, execute, build_error_response)
