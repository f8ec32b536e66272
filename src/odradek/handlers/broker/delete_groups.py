"""DeleteGroups, versions 0 to 2: groups without members, with all that they have committed."""

from collections.abc import Iterable

from odradek.base.group_commands import DeleteGroups, DeleteGroupsAnswer
from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED, answer_with_all
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.handlers.late_answer import LateAnswer
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | LateAnswer:
    groups = broker.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(groups.partition_of(group_id), []).append(group_id)
    asked = [groups.ask_at(partition, DeleteGroups(ids)) for partition, ids in by_partition.items()]
    return answer_with_all(asked, lambda answers: _response(answers, context))


def _response(answers: Iterable[DeleteGroupsAnswer], context: RequestContext) -> Message:
    return context.new(
        "DeleteGroupsResponse",
        throttle_time=NOT_THROTTLED,
        results=tuple(
            context.new("DeletableGroupResult", group_id=group_id, error_code=error)
            for answer in answers
            for group_id, error in answer.results
        ),
    )
