"""ConsumerGroupHeartbeat, versions 0 and 1: subscriptions and assignments of a consumer group's members (KIP-848)."""

from datetime import timedelta

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.broker.apis.authorization import allowed_topics, may_read_group
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, java_address, milliseconds, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, TopicIdPartitions
from odradek.core.metadata.features import GROUP_VERSION
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if not broker.image.features.level(GROUP_VERSION):
        return _response(ConsumerGroupHeartbeatResponse(ErrorCode.unsupported_version), context)
    if context.access.is_restricted:
        denied = _why_denied(request, context)
        if denied is not None:
            return _response(ConsumerGroupHeartbeatResponse(denied), context)
    names, owned = request.subscribed_topic_names, request.topic_partitions
    command = ConsumerGroupHeartbeat(
        context.version,
        request.group_id,
        request.member_id,
        request.member_epoch,
        context.client_id or "",
        java_address(context.peer_host),
        request.instance_id,
        request.rack_id,
        milliseconds(request.rebalance_timeout),
        names,
        getattr(request, "subscribed_topic_regex", None),
        request.server_assignor,
        None if owned is None else tuple(TopicIdPartitions(one.topic_id or ZERO_UUID, one.partitions) for one in owned),
        context.access,
    )
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


def _why_denied(request: Message, context: RequestContext) -> ErrorCode | None:
    if not may_read_group(context.access, request.group_id):
        return ErrorCode.group_authorization_failed
    topics = allowed_topics(context.access, Operation.DESCRIBE)
    # All topics are checked, so that the log names each denied one.
    denied = [name for name in request.subscribed_topic_names or () if topics is not None and name not in topics]
    return ErrorCode.topic_authorization_failed if denied else None


def _response(response: ConsumerGroupHeartbeatResponse, context: RequestContext) -> Message:
    return context.new(
        "ConsumerGroupHeartbeatResponse",
        throttle_time=NOT_THROTTLED,
        error_code=response.error,
        error_message=response.error_message,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval=timedelta(milliseconds=response.heartbeat_interval_ms),
        assignment=None if response.assignment is None else _assignment(response.assignment, context),
    )


def _assignment(assignment: tuple[TopicIdPartitions, ...], context: RequestContext) -> Message:
    return context.new(
        "Assignment",
        topic_partitions=tuple(
            context.new("TopicPartitions", topic_id=one.topic_id, partitions=one.partitions) for one in assignment
        ),
    )
