"""What brokers and controllers respond to requests that ACLs do not allow, with Kafka's default messages."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext

_CODES: Final = {
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
}
_MESSAGES: Final = {
    ResourceType.CLUSTER: "Cluster authorization failed.",
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
}


def allows_cluster(access: Access, operation: Operation, *, logs_denial: bool = True) -> bool:
    return not access.is_restricted or access.allows(
        operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=logs_denial
    )


def denial_of(resource_type: ResourceType) -> KafkaError:
    """For a resource of a cluster, topic or group."""
    return KafkaError(_CODES[resource_type], _MESSAGES[resource_type])


def find_cluster_denial(context: RequestContext, operation: Operation) -> KafkaError | None:
    """Why the whole request fails if it needs this operation on the cluster; None if it is allowed.

    Kafka's message contains addresses and IDs of the server's connection: here it names the API only.
    """
    if allows_cluster(context.access, operation):
        return None
    message = f"Request {context.schema.api_name} needs {operation.name} permission."
    return KafkaError(ErrorCode.cluster_authorization_failed, message)
