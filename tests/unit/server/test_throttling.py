"""Which requests count for the quotas of a client, and what they cost it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.core.quotas.node_quotas import CREDIT_BYTES_MAX, ClientUsage, unlimited_quotas
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.server.throttling import RequestLimiter, Throttled
from odradek.wire.apis import ApiKey
from odradek.wire.produce_codec import PartitionResult, TopicResult, write_produce_response
from odradek.wire.schemas import schema
from odradek.wire.streamed_response import StreamedResponse

FRAME_BYTES = 1000
PRODUCED = write_produce_response([TopicResult("t", None, [PartitionResult(0, ErrorCode.none, 5)])], 9)


class Stage:
    """A client of user bob with these limits."""

    def __init__(self, **limits: float) -> None:
        self.quotas = unlimited_quotas()
        self.quotas.change({(("user", "bob"),): limits})
        self.usage = ClientUsage(self.quotas, "bob", "app")
        self.now = 1000.0

    def request(self, api_key: ApiKey, version: int, response: Any, *, seconds: float = 0.0) -> Any:
        messages = schema(api_key, version)
        context = RequestContext(api_key, version, "app", "PLAINTEXT", "host", messages, usage=self.usage)

        def dispatch(frame: bytearray, body: int, context: RequestContext) -> Any:
            self.now += seconds
            return response

        return RequestLimiter(dispatch, self.quotas, lambda: self.now).dispatch(bytearray(FRAME_BYTES), 0, context)


def test_produced_bytes_are_those_of_whole_requests() -> None:
    stage = Stage(producer_byte_rate=150)
    assert stage.request(ApiKey.PRODUCE, 9, PRODUCED) == PRODUCED
    throttled = stage.request(ApiKey.PRODUCE, 9, PRODUCED)
    # 2000 bytes in ten windows, at 150 per second.
    assert throttled.delay_ms == 3333
    assert b"".join(throttled.response) == write_produce_response(
        [TopicResult("t", None, [PartitionResult(0, ErrorCode.none, 5)])], 9, 3333
    )


def test_request_without_acks_has_bandwidth_but_no_request_quota() -> None:
    stage = Stage(producer_byte_rate=50, request_percentage=0.001)
    assert stage.request(ApiKey.PRODUCE, 9, None, seconds=1) == Throttled(None, 10_000)


def test_longest_delay_counts() -> None:
    stage = Stage(producer_byte_rate=99, request_percentage=1)
    assert stage.request(ApiKey.PRODUCE, 9, PRODUCED, seconds=1).delay_ms == 1000
    stage = Stage(producer_byte_rate=50, request_percentage=1)
    assert stage.request(ApiKey.PRODUCE, 9, PRODUCED, seconds=1).delay_ms == 10_000


def test_deferred_response_counts_when_it_is_complete() -> None:
    stage = Stage(producer_byte_rate=50)
    deferred = DeferredResponse()
    assert stage.request(ApiKey.PRODUCE, 9, deferred) is deferred
    deferred.complete(PRODUCED)
    assert deferred.result.delay_ms == 10_000


@pytest.mark.parametrize(
    ("api_key", "version"), [(ApiKey.WRITE_TXN_MARKERS, 1), (ApiKey.VOTE, 0), (ApiKey.BROKER_HEARTBEAT, 0)]
)
def test_requests_between_nodes_are_exempt(api_key: ApiKey, version: int) -> None:
    assert Stage(request_percentage=0.001).request(api_key, version, b"response", seconds=5) == b"response"


def test_fetch_limits_itself_and_its_time_counts_afterwards() -> None:
    stage = Stage(request_percentage=1)
    assert stage.request(ApiKey.FETCH, 12, b"response", seconds=5) == b"response"
    assert stage.usage.record_request(0, int(stage.now * 1000)) == 1000


def test_delay_of_the_controller_counts_if_it_is_longer() -> None:
    stage = Stage(controller_mutation_rate=1)
    response = schema(ApiKey.CREATE_TOPICS, 7).new(
        "CreateTopicsResponse", throttle_time=timedelta(milliseconds=1234), topics=()
    )
    assert stage.request(ApiKey.CREATE_TOPICS, 7, response) == Throttled(response, 1234)


@pytest.mark.parametrize("response", [CLOSE_CONNECTION, Throttled(b"", 5)])
def test_other_results_pass_unchanged(response: Any) -> None:
    assert Stage(request_percentage=0.001).request(ApiKey.METADATA, 9, response, seconds=5) is response


def test_streamed_response_gets_the_delay() -> None:
    throttled = Stage(request_percentage=0.001).request(
        ApiKey.LIST_OFFSETS, 7, StreamedResponse([bytes(8), b"rest"]), seconds=5
    )
    assert throttled.response.parts == [b"\0\0\x03\xe8\0\0\0\0", b"rest"]


class TestCredit:
    """A client far below its limit is measured in steps."""

    def test_every_byte_counts_once(self) -> None:
        stage = Stage(producer_byte_rate=100_000_000)
        count = 500
        for _ in range(count):
            assert stage.request(ApiKey.PRODUCE, 9, PRODUCED) == PRODUCED
        (sensor,) = stage.quotas.produced.latest(1000)
        recorded = sensor.measured.rate(int(stage.now * 1000)) * 10
        assert recorded == pytest.approx(count * FRAME_BYTES + stage.usage.byte_credit)

    def test_no_credit_in_the_upper_half_of_the_limit(self) -> None:
        stage = Stage(producer_byte_rate=1_000_000)
        stage.usage.record_produced(6_000_000, int(stage.now * 1000))
        stage.request(ApiKey.PRODUCE, 9, PRODUCED)
        assert stage.usage.byte_credit == 0

    def test_client_without_a_limit_is_measured_rarely(self) -> None:
        stage = Stage(consumer_byte_rate=1)
        stage.request(ApiKey.PRODUCE, 9, PRODUCED)
        assert stage.usage.byte_credit == CREDIT_BYTES_MAX

    def test_new_limit_ends_the_credit(self) -> None:
        stage = Stage(consumer_byte_rate=1)
        assert stage.request(ApiKey.PRODUCE, 9, PRODUCED) == PRODUCED
        stage.quotas.change({(("user", "bob"),): {"producer_byte_rate": 50}})
        assert stage.request(ApiKey.PRODUCE, 9, PRODUCED).delay_ms == 10_000

    def test_new_limit_ends_the_credit_of_time(self) -> None:
        stage = Stage(producer_byte_rate=1e9, request_percentage=1000)
        stage.request(ApiKey.METADATA, 9, b"\0\0\0\0", seconds=0.001)
        assert stage.usage.time_credit > 0.002
        stage.quotas.change({(("user", "bob"),): {"request_percentage": 0.001}})
        assert stage.request(ApiKey.METADATA, 9, b"\0\0\0\0", seconds=0.002).delay_ms > 0


def test_waits_of_a_coroutine_are_not_counted() -> None:
    stage = Stage(request_percentage=1000)

    async def handle(pass_time: Callable[[float], None]) -> bytes:
        pass_time(0.25)
        await asyncio.sleep(0)
        pass_time(0.5)
        return b"\0\0\0\0"

    def pass_time(seconds: float) -> None:
        stage.now += seconds

    async def main() -> None:
        waiting = asyncio.ensure_future(stage.request(ApiKey.METADATA, 9, handle(pass_time)))
        await asyncio.sleep(0)
        pass_time(100)
        await waiting

    asyncio.run(main())
    (sensor,) = stage.quotas.requests.latest(1000)
    recorded = sensor.measured.rate(int(stage.now * 1000)) * 10 / 100
    assert recorded - stage.usage.time_credit == pytest.approx(0.75)
