"""The response to DescribeCluster: brokers describe brokers, controllers describe controllers."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.server.authorized_operations import NOT_REQUESTED, cluster_operations
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

BROKERS: Final = 1
CONTROLLERS: Final = 2
_NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
_NO_CONTROLLER: Final = -1


def wrong_endpoint_response(request: Message, context: RequestContext, own_type: int) -> Message | None:
    """The response to a request for nodes of another type than this one, or None."""
    wanted = getattr(request, "endpoint_type", BROKERS)
    if wanted == own_type:
        return None
    if wanted in _NAMES:
        error = ErrorCode.mismatched_endpoint_type
        message = (
            f"The request was sent to an endpoint of type {_NAMES[own_type]}, "
            f"but we wanted an endpoint of type {_NAMES[wanted]}"
        )
    else:
        error, message = ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {wanted}"
    # Version 0 knows neither error.
    return error_response(context, ErrorCode.invalid_request if context.version == 0 else error, message)


def error_response(context: RequestContext, error: ErrorCode, message: str | None) -> Message:
    return context.new(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=error,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=_NO_CONTROLLER,
        brokers=(),
        cluster_authorized_operations=NOT_REQUESTED,
    )


def describe_cluster_response(
    request: Message,
    context: RequestContext,
    own_type: int,
    cluster_id: str,
    controller_id: int,
    nodes: Sequence[Message],
) -> Message:
    # Clients look the controller up in the list.
    known = any(node.broker_id == controller_id for node in nodes)
    return context.new(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=own_type,
        cluster_id=cluster_id,
        controller_id=controller_id if known else _NO_CONTROLLER,
        brokers=tuple(nodes),
        cluster_authorized_operations=cluster_operations(
            context.access, is_requested=request.include_cluster_authorized_operations
        ),
    )
