"""ListGroups, versions 0 to 5: the groups that this broker coordinates, of some states (4) and kinds (5) or of all."""

from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    error, groups = broker.groups.list(getattr(request, "states_filter", ()), getattr(request, "types_filter", ()))
    return context.new(
        "ListGroupsResponse",
        throttle_time=NOT_THROTTLED,
        error_code=error,
        groups=tuple(
            context.new(
                "ListedGroup",
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind,
            )
            for group in groups
        ),
    )
