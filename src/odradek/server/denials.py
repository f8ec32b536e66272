"""What brokers and controllers respond to requests that ACLs do not allow, with Kafka's default messages."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.security.access import Access, AuthorizerNotReady
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext

_CODES: Final = {
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
}
_MESSAGES: Final = {
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.unknown_server_error: "The server experienced an unexpected error when processing the request.",
}


def allows_cluster(access: Access, operation: Operation, *, logs_denial: bool = True) -> bool:
    return not access.is_restricted or access.allows(
        operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=logs_denial
    )


def denial_of(resource_type: ResourceType) -> KafkaError:
    """For a resource of a cluster, topic or group."""
    code = _CODES[resource_type]
    return KafkaError(code, _MESSAGES[code])


def default_message(code: ErrorCode) -> str:
    """Of a denial, or of an authorizer that is not ready."""
    return _MESSAGES[code]


def find_cluster_denial(context: RequestContext, operation: Operation) -> KafkaError | None:
    """Why the whole request fails if it needs this operation on the cluster; None if it is allowed.

    Kafka's message contains addresses and IDs of the server's connection: here it names the API only.
    """
    try:
        if allows_cluster(context.access, operation):
            return None
    except AuthorizerNotReady as error:
        return error
    message = f"Request {context.schema.api_name} needs {operation.name} permission."
    return KafkaError(ErrorCode.cluster_authorization_failed, message)
