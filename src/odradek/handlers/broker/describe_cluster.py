"""DescribeCluster, versions 0 to 2: the brokers, as clients of this listener reach them."""

from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.handlers.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from odradek.handlers.broker.cluster_view import NOBODY, random_alive_broker, reachable_brokers
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message

_BROKERS = 1
_CONTROLLERS = 2


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    endpoint_type = getattr(request, "endpoint_type", _BROKERS)
    if endpoint_type == _CONTROLLERS:
        return _refusal(
            context,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if endpoint_type != _BROKERS:
        return _refusal(context, ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {endpoint_type}")
    with_fenced = getattr(request, "include_fenced_brokers", False)
    brokers = [
        context.new(
            "DescribeClusterBroker",
            broker_id=one.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=one.rack,
            is_fenced=one.fenced,
        )
        for one, endpoint in reachable_brokers(broker.image, context.listener_name)
        if with_fenced or not one.fenced
    ]
    controller_id = random_alive_broker(broker.image, broker.random)
    if all(one.broker_id != controller_id for one in brokers):
        controller_id = NOBODY
    return context.new(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=controller_id,
        brokers=tuple(brokers),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refusal(context: RequestContext, error: ErrorCode, message: str) -> Message:
    return context.new(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=error,
        error_message=message,
        endpoint_type=_BROKERS,
        cluster_id="",
        controller_id=NOBODY,
        brokers=(),
        cluster_authorized_operations=NOT_ASKED,
    )
