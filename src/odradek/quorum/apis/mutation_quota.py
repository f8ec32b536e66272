"""Requests that create or delete partitions, within their client's `controller_mutation_rate`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from odradek.core.controller.commands import ControllerResult
from odradek.core.quotas.mutations import MutationQuota
from odradek.quorum.ports import BuildErrorResponse, ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message
from odradek.wire.throttle_time import set_throttle_ms


def handle_within_quota(
    request: Message,
    context: RequestContext,
    node: ControllerNodePort,
    *,
    execute: Callable[..., ControllerResult[Message]],
    build_error_response: BuildErrorResponse,
    strict_from: int,
) -> Awaitable[Message]:
    """For a node with quotas. `execute` also takes the quota. Clients of versions before `strict_from` cannot retry a
    refused request."""
    quotas = node.client_quotas

    def now_ms() -> int:
        return int(node.clock.monotonic() * 1000)

    sensor = quotas.mutations.find(context.principal.name, context.client_id, now_ms())
    quota = MutationQuota(sensor, now_ms, is_strict=context.version >= strict_from)
    limited = partial(execute, quota=quota)
    return _add_delay(node.controller.handle(request, context.schema, limited, build_error_response), quota)


async def _add_delay(handling: Awaitable[Any], quota: MutationQuota) -> Message:
    response = await handling
    delay_ms = quota.remaining_delay_ms()
    return set_throttle_ms(response, delay_ms) if delay_ms else response
