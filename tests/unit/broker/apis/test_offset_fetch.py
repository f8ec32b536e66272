"""OffsetFetch of many groups: all commands are submitted before the handler waits."""

import asyncio
from typing import Any, Self

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis import offset_fetch
from odradek.core.groups.commands import FetchOffsets, FetchOffsetsResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.unit.broker.fake_broker import FakeBroker

OFFSET_FETCH, VERSION = 9, 9
MANY = 450


class _SlowGroups:
    """No response completes before all commands are submitted."""

    def __init__(self) -> None:
        self.submitted: list[DeferredResponse] = []

    def coordinator_of(self, group_id: str) -> Self:
        return self

    def submit(self, command: FetchOffsets) -> DeferredResponse:
        self.submitted.append(DeferredResponse(command))
        if len(self.submitted) == MANY:
            for one in self.submitted:
                one.complete(FetchOffsetsResponse(one.request.group_id, ErrorCode.none))
        return self.submitted[-1]


def test_offset_fetch_submits_all_groups_before_it_waits(broker: FakeBroker) -> None:
    broker.groups = _SlowGroups()
    messages = schema(OFFSET_FETCH, VERSION)
    fields = {"groups": [{"group_id": f"g{number}"} for number in range(MANY)], "require_stable": True}
    request = raw_wire.build(messages.request_type, fields)
    context = RequestContext(OFFSET_FETCH, VERSION, "test", "PLAINTEXT", "127.0.0.1", messages)

    async def work() -> Any:
        response: Any = offset_fetch.handle(request, context, broker)
        return await asyncio.wait_for(response, 5)

    assert [group.group_id for group in asyncio.run(work()).groups] == [f"g{number}" for number in range(MANY)]
