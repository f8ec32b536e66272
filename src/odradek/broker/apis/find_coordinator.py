"""FindCoordinator, versions 0 to 6: the broker that coordinates a group or a transactional id.

The coordinator is the leader of one partition of an internal topic, which the key selects. The first request creates
the topic; while it does not exist, or the partition has no leader, clients get COORDINATOR_NOT_AVAILABLE. Share groups
are not supported.
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.java_hash import partition_of
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.cluster_view import NO_BROKER, leader_endpoint
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.records import Endpoint
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_FIRST_BATCHED: Final = 4
_PER_TURN_MAX: Final = 500
_TOPICS: Final = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
_KNOWN_TYPES: Final = (0, 1, 2)
_MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
}
_SHARE: Final = 2
_FIRST_WITH_SHARE: Final = 6
_DESCRIBED: Final = {
    0: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed),
}

_Found = tuple[ErrorCode, int, str, int]
_NOT_AVAILABLE: Final[_Found] = (ErrorCode.coordinator_not_available, NO_BROKER, "", -1)
_INVALID: Final[_Found] = (ErrorCode.invalid_request, NO_BROKER, "", -1)


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    key_type = getattr(request, "key_type", 0)
    if context.access.is_restricted and key_type == _SHARE and not _may_find_share_coordinators(request, context):
        return _response([_denied_share(key, context) for key in request.coordinator_keys], context)
    if context.version < _FIRST_BATCHED:
        error, node_id, host, port = _find(key_type, request.key, context, broker)
        return context.new(
            "FindCoordinatorResponse",
            throttle_time=NOT_THROTTLED,
            error_code=error,
            error_message=_MESSAGES[error],
            node_id=node_id,
            host=host,
            port=port,
        )
    return respond_in_slices(
        request.coordinator_keys,
        _PER_TURN_MAX,
        lambda some: [_coordinator(key, key_type, context, broker) for key in some],
        lambda coordinators: _response(coordinators, context),
    )


def _response(coordinators: Sequence[Message], context: RequestContext) -> Message:
    return context.new("FindCoordinatorResponse", throttle_time=NOT_THROTTLED, coordinators=tuple(coordinators))


def _coordinator(key: str, key_type: int, context: RequestContext, broker: BrokerPort) -> Message:
    error, node_id, host, port = _find(key_type, key, context, broker)
    return context.new(
        "Coordinator",
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=error,
        # Kafka sends a message only if it rejects the whole request.
        error_message=_MESSAGES[error] if key_type not in _KNOWN_TYPES else "",
    )


def _may_find_share_coordinators(request: Message, context: RequestContext) -> bool:
    """Checked once for all keys. Older versions get INVALID_REQUEST."""
    return (
        context.version < _FIRST_WITH_SHARE
        or not request.coordinator_keys
        or context.access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    )


def _denied_share(key: str, context: RequestContext) -> Message:
    error = ErrorCode.cluster_authorization_failed
    return context.new(
        "Coordinator", key=key, node_id=NO_BROKER, host="", port=-1, error_code=error, error_message=_MESSAGES[error]
    )


def _why_denied(key_type: int, key: str, access: Access) -> ErrorCode | None:
    described = _DESCRIBED.get(key_type)
    if described is None:
        return None
    resource_type, error = described
    return None if access.allows(Operation.DESCRIBE, resource_type, key) else error


def _find(key_type: int, key: str, context: RequestContext, broker: BrokerPort) -> _Found:
    if context.access.is_restricted:
        denied = _why_denied(key_type, key, context.access)
        if denied is not None:
            return denied, NO_BROKER, "", -1
    name = _TOPICS.get(key_type)
    if name is None:
        return _INVALID
    image = broker.image
    topic = image.topics_by_name.get(name)
    if topic is None:
        broker.create_internal_topic(name)
        return _NOT_AVAILABLE
    partition = topic.partitions.get(partition_of(key, len(topic.partitions)))
    endpoint: Endpoint | None = None
    if partition is not None and partition.leader not in broker.unreachable_leaders():
        endpoint = leader_endpoint(image, partition, context.listener_name)
    if partition is None or endpoint is None:
        return _NOT_AVAILABLE
    return ErrorCode.none, partition.leader, endpoint.host, endpoint.port
