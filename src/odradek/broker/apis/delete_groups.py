"""DeleteGroups, versions 0 to 2: deletes empty groups and their committed offsets."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.authorization import split_groups
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with_all
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import DeleteGroups, DeleteGroupsResponse
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_PER_TURN_MAX: Final = 500


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    group_ids = list(dict.fromkeys(request.groups_names))
    if len(group_ids) > _PER_TURN_MAX:
        return _delete_slowly(group_ids, context, broker)
    denied: Sequence[str] = ()
    if context.access.is_restricted:
        group_ids, denied = split_groups(group_ids, Operation.DELETE, context.access)
    return respond_with_all(
        _delete(group_ids, broker),
        lambda responses: _response(
            [*(result for one in responses for result in _results(one, context)), *_denied(denied, context)], context
        ),
    )


async def _delete_slowly(group_ids: Sequence[str], context: RequestContext, broker: BrokerPort) -> Message:
    """For thousands of groups: it yields to other connections."""
    results: list[Message] = []
    denied: list[str] = []
    for start in range(0, len(group_ids), _PER_TURN_MAX):
        some = group_ids[start : start + _PER_TURN_MAX]
        if context.access.is_restricted:
            some, others = split_groups(some, Operation.DELETE, context.access)
            denied += others
        for deferred in _delete(some, broker):
            results += _results(await deferred.wait(), context)
        await asyncio.sleep(0)
    return _response([*results, *_denied(denied, context)], context)


def _delete(group_ids: Sequence[str], broker: BrokerPort) -> list[DeferredResponse]:
    """One response from each coordinator."""
    groups = broker.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in group_ids:
        by_partition.setdefault(groups.partition_of(group_id), []).append(group_id)
    return [groups.coordinator_at(partition).submit(DeleteGroups(ids)) for partition, ids in by_partition.items()]


def _results(response: DeleteGroupsResponse, context: RequestContext) -> list[Message]:
    return [
        context.new("DeletableGroupResult", group_id=group_id, error_code=error) for group_id, error in response.results
    ]


def _denied(group_ids: Iterable[str], context: RequestContext) -> list[Message]:
    return _results(
        DeleteGroupsResponse(tuple((one, ErrorCode.group_authorization_failed) for one in group_ids)), context
    )


def _response(results: Iterable[Message], context: RequestContext) -> Message:
    return context.new("DeleteGroupsResponse", throttle_time=NOT_THROTTLED, results=tuple(results))
