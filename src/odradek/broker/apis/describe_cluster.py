"""DescribeCluster, versions 0 to 2: the brokers, with the addresses of the client's listener."""

from odradek.broker.apis.cluster_view import random_alive_broker, reachable_brokers
from odradek.broker.ports import BrokerPort
from odradek.server.apis.described_cluster import BROKERS, describe_cluster_response, wrong_endpoint_response
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    rejection = wrong_endpoint_response(request, context, BROKERS)
    if rejection is not None:
        return rejection
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
    return describe_cluster_response(request, context, BROKERS, broker.cluster_id, controller_id, brokers)
