"""ListGroups, versions 0 to 5: the groups that this broker coordinates, filtered by state (4) and type (5)."""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import ListedGroup
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_PER_TURN_MAX: Final = 1000


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    error, groups = broker.groups.list(getattr(request, "states_filter", ()), getattr(request, "types_filter", ()))
    access = context.access
    sees_all = not access.is_restricted or access.allows(
        Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False
    )
    return respond_in_slices(
        groups,
        _PER_TURN_MAX,
        lambda some: [_group(one, context) for one in some if sees_all or _may_describe(access, one.group_id)],
        lambda listed: _response(error, listed, context),
    )


def _may_describe(access: Access, group_id: str) -> bool:
    return access.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id, logs_denial=False)


def _response(error: ErrorCode, groups: Sequence[Message], context: RequestContext) -> Message:
    return context.new("ListGroupsResponse", throttle_time=NOT_THROTTLED, error_code=error, groups=tuple(groups))


def _group(group: ListedGroup, context: RequestContext) -> Message:
    return context.new(
        "ListedGroup",
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.kind,
    )
