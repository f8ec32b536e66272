"""ListConfigResources, versions 0 and 1: resources that have configs. Version 0 lists client metrics only."""

from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.broker.apis.cluster_view import reachable_brokers
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.server.denials import allows_cluster
from odradek.wire.schemas import Message

_RESOURCE_BROKER_LOGGER = 8
# In the order in which Kafka lists them.
_TYPES = (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS, _RESOURCE_BROKER_LOGGER, RESOURCE_BROKER, RESOURCE_TOPIC)


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    if not allows_cluster(context.access, Operation.DESCRIBE_CONFIGS):
        return _response(context, ErrorCode.cluster_authorization_failed, ())
    served = (RESOURCE_CLIENT_METRICS,) if context.version == 0 else _TYPES
    requested = getattr(request, "resource_types", ()) or served
    if any(kind not in served for kind in requested):
        return _response(context, ErrorCode.unsupported_version, ())
    found = tuple(
        context.new("ConfigResource", resource_name=name, resource_type=kind)
        for kind in served
        if kind in requested
        for name in _names(kind, context, broker)
    )
    return _response(context, ErrorCode.none, found)


def _names(kind: int, context: RequestContext, broker: BrokerPort) -> list[str]:
    image = broker.image
    if kind == RESOURCE_TOPIC:
        return list(image.topics_by_name)
    if kind in (RESOURCE_BROKER, _RESOURCE_BROKER_LOGGER):
        return [str(one.id) for one, _ in reachable_brokers(image, context.listener_name)]
    return [name for resource, name in image.configs if resource == kind]


def _response(context: RequestContext, error: ErrorCode, resources: tuple[Message, ...]) -> Message:
    return context.new(
        "ListConfigResourcesResponse", throttle_time=timedelta(0), error_code=error, config_resources=resources
    )
