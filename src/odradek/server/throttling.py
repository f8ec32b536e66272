"""Measures what the requests of clients with quotas use, and tells their connections for how long to pause.

The response is sent at once, with the delay in `throttle_time_ms`; then its connection is muted. A node without any
client quota does not get here.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from inspect import isawaitable
from typing import Any, Final, NamedTuple

from odradek.base.deferred import DeferredResponse
from odradek.config.node_config import NodeConfig
from odradek.core.quotas.node_quotas import NodeQuotas
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.wire.apis import CONSENSUS_APIS, FORWARDABLE_APIS, INTERNAL_APIS, ApiKey
from odradek.wire.error_codes import error_codes
from odradek.wire.streamed_response import StreamedResponse
from odradek.wire.throttle_time import patch_throttle_ms, set_throttle_ms, throttle_ms_of

# Kafka exempts follower fetches, transaction markers and Raft. Other requests that only nodes send are exempt here too:
# a delayed heartbeat would fence a broker. The Fetch handler knows followers, and limits consumers itself.
_EXEMPT: Final = INTERNAL_APIS | CONSENSUS_APIS | {ApiKey.FETCH, ApiKey.WRITE_TXN_MARKERS}


class Throttled(NamedTuple):
    """A response, or None, after which the connection is muted."""

    response: Any
    delay_ms: int


def new_client_quotas(config: NodeConfig) -> NodeQuotas:
    return NodeQuotas(
        window_count=config.quota_window_num,
        window_ms=config.quota_window_size_seconds * 1000,
        mutation_window_count=config.controller_quota_window_num,
        mutation_window_ms=config.controller_quota_window_size_seconds * 1000,
    )


Dispatch = Callable[[bytearray, int, RequestContext], Any]


class RequestLimiter:
    """Limits the requests of one type of listener."""

    def __init__(self, dispatch: Dispatch, quotas: NodeQuotas, monotonic: Callable[[], float]) -> None:
        self._quotas: Final = quotas
        self._dispatch: Final = dispatch
        self._monotonic: Final = monotonic

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        """As the dispatcher's, with a `Throttled` response if the client has to pause."""
        usage = context.usage
        if usage.credit_generation != self._quotas.generation:
            usage.forget_credits()
        if self._quotas.measures_requests:
            return self._dispatch_timed(frame, body, context)
        api_key = context.api_key
        if not api_key:
            # Produce.
            usage.byte_credit = credit = usage.byte_credit - len(frame)
            if credit >= 0:
                return self._dispatch(frame, body, context)
            return self._dispatch_measured(frame, body, context)
        if api_key in FORWARDABLE_APIS and api_key not in _EXEMPT:
            # The controller may have limited it.
            return self._dispatch_measured(frame, body, context)
        return self._dispatch(frame, body, context)

    def _dispatch_timed(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        usage = context.usage
        api_key = context.api_key
        if api_key in _EXEMPT:
            return self._dispatch_exempt(frame, body, context)
        byte_credit = 0.0
        if not api_key:
            usage.byte_credit = byte_credit = usage.byte_credit - len(frame)
        if byte_credit < 0 or api_key in FORWARDABLE_APIS:
            return self._dispatch_measured(frame, body, context)
        started = self._monotonic()
        response = self._dispatch(frame, body, context)
        kind = response.__class__
        if kind is bytes or kind is list:
            usage.time_credit = time_credit = usage.time_credit - (self._monotonic() - started)
            return response if time_credit >= 0 else self._finish(context, 0, _Work(), response)
        return self._measure(response, started, 0, context)

    def _dispatch_measured(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        usage = context.usage
        request_bytes = 0.0
        if context.api_key == ApiKey.PRODUCE:
            # Without what was recorded in advance.
            request_bytes, usage.byte_credit = -usage.byte_credit, 0
        started = self._monotonic()
        return self._measure(self._dispatch(frame, body, context), started, request_bytes, context)

    def _measure(self, response: Any, started: float, request_bytes: float, context: RequestContext) -> Any:
        """The time of a long request counts when its response is complete."""
        work = _Work()
        finish = partial(self._finish, context, request_bytes, work)
        measures_time = self._quotas.measures_requests
        if isinstance(response, DeferredResponse):
            work.seconds = self._monotonic() - started
            # Its owner may complete it long after this.
            response.convert(finish)
            return response
        if isawaitable(response):
            work.seconds = self._monotonic() - started
            return _finish_later(_Timed(response, work, self._monotonic) if measures_time else response, finish)
        if measures_time:
            response = _encode(response, context)
            work.seconds = self._monotonic() - started
        return finish(response)

    def _dispatch_exempt(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        if context.api_key != ApiKey.FETCH:
            return self._dispatch(frame, body, context)
        started = self._monotonic()
        response = self._dispatch(frame, body, context)
        # It has already decided on the delay: this counts for the next request.
        context.usage.add_request_time(self._monotonic() - started, self._now_ms())
        return response

    def _finish(self, context: RequestContext, request_bytes: float, work: "_Work", response: Any) -> Any:
        if response is CLOSE_CONNECTION or response.__class__ is Throttled:
            return response
        usage = context.usage
        now_ms = self._now_ms()
        produced_ms = request_ms = 0
        if request_bytes:
            produced_ms = usage.record_produced(request_bytes, now_ms)
            if not produced_ms:
                usage.grant_byte_credit(now_ms)
        # As in Kafka, a producer with acks=0 has no request quota.
        if response is not None and self._quotas.measures_requests:
            seconds = work.seconds
            if usage.time_credit < 0:
                seconds, usage.time_credit = seconds - usage.time_credit, 0.0
            request_ms = usage.record_request(seconds, now_ms)
            if not request_ms:
                usage.grant_time_credit(now_ms)
        if produced_ms or request_ms:
            usage.note_delay(now_ms, produced_ms=produced_ms, request_ms=request_ms)
        return _with_delay(response, max(produced_ms, request_ms), context)

    def _now_ms(self) -> int:
        return int(self._monotonic() * 1000)


class _Work:
    """The time that a request took so far, apart from waiting."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class _Timed:
    """Measures how long a coroutine runs between its waits."""

    def __init__(self, awaited: Awaitable[Any], work: _Work, monotonic: Callable[[], float]) -> None:
        self._awaited: Final = awaited
        self._work: Final = work
        self._monotonic: Final = monotonic

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaited.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        while True:
            started = self._monotonic()
            try:
                waits_for = resume()
            except StopIteration as done:
                return done.value
            finally:
                self._work.seconds += self._monotonic() - started
            try:
                yield waits_for
                resume = partial(next, steps)
            except BaseException as error:  # noqa: BLE001 - the coroutine handles it, as without this wrapper
                resume = partial(steps.throw, error)


async def _finish_later(awaited: Awaitable[Any], finish: Callable[[Any], Any]) -> Any:
    return finish(await awaited)


def _encode(response: Any, context: RequestContext) -> Any:
    """Encoding is part of the request's time."""
    kind = response.__class__
    if response is None or response is CLOSE_CONNECTION or kind in (bytes, list, StreamedResponse, Throttled):
        return response
    if throttle_ms_of(response) or context.api_key == ApiKey.API_VERSIONS:
        return response
    if errors := error_codes(response):
        context.meter.count_errors(errors)
    return context.schema.write(response)


def _with_delay(response: Any, delay_ms: int, context: RequestContext) -> Any:
    """With the delay that the controller has written into a forwarded response, if that is longer."""
    kind = response.__class__
    if response is None:
        return Throttled(None, delay_ms) if delay_ms else None
    if kind is bytes or kind is list or kind is StreamedResponse:
        if not delay_ms:
            return response
        parts = [response] if kind is bytes else response if kind is list else response.parts
        patched = patch_throttle_ms(parts, context.schema, delay_ms)
        return Throttled(StreamedResponse(patched) if kind is StreamedResponse else patched, delay_ms)
    delay_ms = max(delay_ms, throttle_ms_of(response))
    return Throttled(set_throttle_ms(response, delay_ms), delay_ms) if delay_ms else response
