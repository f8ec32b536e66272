"""Which configs a client may describe or alter, on brokers and controllers."""

from collections.abc import Mapping
from typing import Final

from odradek.base.errors import KafkaError
from odradek.core.metadata.image import RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.core.security.access import Access, AuthorizerNotReady
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.denials import denial_of
from odradek.wire.schemas import Message

_TYPES: Final[Mapping[int, ResourceType]] = {RESOURCE_TOPIC: ResourceType.TOPIC, RESOURCE_GROUP: ResourceType.GROUP}


def find_denial(resource: Message, operation: Operation, access: Access) -> KafkaError | None:
    """None if the operation is allowed. The configs of nodes, loggers and client metrics belong to the cluster."""
    if not access.is_restricted:
        return None
    resource_type = _TYPES.get(resource.resource_type, ResourceType.CLUSTER)
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else resource.resource_name
    try:
        return None if access.allows(operation, resource_type, name) else denial_of(resource_type)
    except AuthorizerNotReady as error:
        return error
