"""ConsumerGroupHeartbeat, versions 0 and 1: subscriptions and assignments of a consumer group's members (KIP-848)."""

from datetime import timedelta

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, java_address, milliseconds, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, TopicIdPartitions
from odradek.core.metadata.features import GROUP_VERSION
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if not broker.image.features.level(GROUP_VERSION):
        return _response(ConsumerGroupHeartbeatResponse(ErrorCode.unsupported_version), context)
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
    )
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


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
