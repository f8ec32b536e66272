"""DescribeCluster, versions 0 to 2: the controllers' endpoints on this listener."""

from odradek.core.security.resources import Operation
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.described_cluster import (
    CONTROLLERS,
    describe_cluster_response,
    error_response,
    wrong_endpoint_response,
)
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    # As in Kafka, this needs more than on a broker, where every client finds out which nodes there are.
    denial = find_cluster_denial(context, Operation.ALTER)
    if denial is not None:
        return error_response(context, denial.code, denial.message)
    refusal = wrong_endpoint_response(request, context, CONTROLLERS)
    if refusal is not None:
        return refusal
    controllers = [
        context.new(
            "DescribeClusterBroker",
            broker_id=one.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=None,
            is_fenced=False,
        )
        for one in node.image.controllers.values()
        for endpoint in one.endpoints
        if endpoint.name == context.listener_name
    ]
    return describe_cluster_response(request, context, CONTROLLERS, node.cluster_id, node.quorum.leader_id, controllers)
