"""A client connection: response order, bounds on queued requests, and isolation of failures."""

import asyncio
import contextlib
import gc
import logging
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from odradek.base.deferred import DeferredResponse
from odradek.base.ports import Pool
from odradek.base.principal import Principal
from odradek.core.quotas.node_quotas import unlimited_quotas
from odradek.core.security.access import UNRESTRICTED, Access, AuthorizerNotReady
from odradek.host.executor import ThreadExecutor
from odradek.instruments.requests import UNCOUNTED, RequestMeter
from odradek.server.connection import (
    PENDING_RESPONSES_MAX,
    WAITING_BYTES_MAX,
    WAITING_FRAMES_MAX,
    ClientConnection,
    UnsupportedRequest,
)
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.server.limits import NodeConnectionLimits
from odradek.server.response_sender import Streaming
from odradek.server.server import Listener, ListenError
from odradek.server.throttling import Throttled
from odradek.wire.headers import RequestHeader
from odradek.wire.schemas import Schema, schema
from odradek.wire.streamed_response import StreamedResponse

REQUEST_BYTES_MAX = 10_000
WAITING_CONNECTIONS_MAX = 4
STREAM_BYTES = 4 << 20
Scenario = Callable[["Harness"], Coroutine[Any, Any, None]]


class Clock:
    seconds = 0.0

    def wall_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds


class Replicated(DeferredResponse):
    """The response to a Produce request: the records are appended, and the test completes it."""

    def __init__(self) -> None:
        super().__init__()
        self.allows_next_request = True


class LongPoll(DeferredResponse):
    """Completes when the client sends its next request."""

    def on_next_request(self) -> None:
        self.complete(b"polled")


class Unreadable:
    """A part of a streamed response."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, part: slice) -> bytes:
        raise KeyError("a fault of ours")


class Scripted:
    """Responds by API key: 0 and 8 as to a producer, or at once if the body says so; 1 at once, 2 when released,
    3 fails, 4 fails later, 5 closes the connection, 6 sends no response, 7 with the next request, 9 responds later with
    nothing that can be encoded, 10 with a stream of which the end cannot be read, 11 and 12 are not authorized yet, at
    once and when released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.seen: list[int] = []
        self.replicated: list[Replicated] = []
        self.client_quotas = unlimited_quotas()
        # By correlation ID.
        self.delays_ms: dict[int, int] = {}

    def throttle(self, delays_ms: dict[int, int]) -> None:
        self.client_quotas.is_enabled = True
        self.delays_ms = delays_ms

    def schema_of(self, header: RequestHeader) -> Schema:
        if header.api_key == 99:
            raise UnsupportedRequest("no such API")
        return schema(3, 0)

    def access_of(self, principal: Principal, host: str) -> Access:
        return UNRESTRICTED

    def meter_of(self, messages: Any) -> RequestMeter:
        return UNCOUNTED

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        return None

    def dispatch_limited(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        response = self.dispatch(frame, body, context)
        delay_ms = self.delays_ms.get(self.seen[-1])
        if isinstance(response, DeferredResponse):
            response.convert(lambda result: result if delay_ms is None else Throttled(result, delay_ms))
            return response
        return response if delay_ms is None else Throttled(response, delay_ms)

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        self.seen.append(struct.unpack_from(">i", frame, 4)[0])
        match context.api_key:
            case 0 | 8 if frame[body:] != b"at once":
                self.replicated.append(Replicated())
                return self.replicated[-1]
            case 0 | 1:
                return bytes(frame[body:])
            case 2:
                return self._later(b"later")
            case 3:
                raise RuntimeError("a fault of ours")
            case 4:
                return self._later(RuntimeError("a fault of ours"))
            case 5:
                return CLOSE_CONNECTION
            case 7:
                return LongPoll()
            case 9:
                return self._later(object())
            case 10:
                beginning, end = bytes(STREAM_BYTES), Unreadable()
                return StreamedResponse([beginning, end])  # type: ignore[list-item]
            case 11:
                raise AuthorizerNotReady
            case 12:
                return self._later(AuthorizerNotReady())
            case _:
                return None

    async def _later(self, result: Any) -> Any:
        await self.release.wait()
        if isinstance(result, Exception):
            raise result
        return result


class Harness:
    def __init__(self) -> None:
        self.clock = Clock()
        self.dispatcher = Scripted()
        self.limits = NodeConnectionLimits(
            self.clock,
            connections_max=3,
            per_address_max=3,
            per_address_overrides={},
            idle_ms_max=1000,
            waiting_max=WAITING_CONNECTIONS_MAX,
        )
        self.streaming = Streaming(ThreadExecutor(dict.fromkeys(Pool, 1)))
        self.listener = Listener(
            "PLAINTEXT",
            "127.0.0.1",
            0,
            self.limits,
            self.streaming,
            request_bytes_max=REQUEST_BYTES_MAX,
            backlog=10,
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)


def request(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhih", api_key, 0, correlation_id, -1) + body
    return struct.pack(">i", len(frame)) + frame


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    raw = await reader.readexactly(length)
    return struct.unpack(">i", raw[:4])[0], raw[4:]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def play(scenario: Scenario) -> None:
        async def main() -> None:
            harness = Harness()
            await harness.listener.bind()
            await harness.listener.serve(harness.dispatcher)
            try:
                async with asyncio.timeout(10):
                    await scenario(harness)
            finally:
                harness.listener.stop_accepting()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return play


def test_responses_are_sent_in_the_order_of_requests(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(2, 1) + request(1, 2, b"now") + request(2, 3))
        await writer.drain()
        while not harness.dispatcher.seen:
            await asyncio.sleep(0.001)
        assert harness.dispatcher.seen == [1]
        harness.dispatcher.release.set()
        assert [await read_response(reader) for _ in range(3)] == [(1, b"later"), (2, b"now"), (3, b"later")]
        writer.close()

    run(scenario)


@pytest.mark.parametrize("arrive_together", [True, False])
def test_next_request_ends_a_long_poll(run: Callable[[Scenario], None], arrive_together: bool) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(7, 1))
        if not arrive_together:
            await wait_until(lambda: harness.dispatcher.seen == [1])
        writer.write(request(1, 2, b"next") + request(7, 3))
        assert [await read_response(reader) for _ in range(2)] == [(1, b"polled"), (2, b"next")]
        writer.write(request(1, 4, b"last"))
        assert [await read_response(reader) for _ in range(2)] == [(3, b"polled"), (4, b"last")]
        writer.close()

    run(scenario)


def test_disconnect_before_the_handler_runs_leaves_no_coroutine_unawaited(
    run: Callable[[Scenario], None], recwarn: pytest.WarningsRecorder
) -> None:
    class Gone(asyncio.Transport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return None

    async def scenario(harness: Harness) -> None:
        connection = ClientConnection(
            harness.dispatcher, harness.limits, "PLAINTEXT", REQUEST_BYTES_MAX, harness.streaming
        )
        connection.connection_made(Gone())
        connection.data_received(request(2, 1))
        connection.connection_lost(None)
        await asyncio.sleep(0)
        del connection
        gc.collect()

    run(scenario)
    assert [str(one.message) for one in recwarn] == []


class TestMutedConnections:
    """The client exceeds a quota: it gets its response at once, and its next request is handled after the delay."""

    def test_next_request_is_handled_after_the_delay(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 200})
            reader, writer = await harness.connect()
            began = time.monotonic()
            writer.write(request(1, 1, b"throttled") + request(1, 2, b"waits"))
            assert await read_response(reader) == (1, b"throttled")
            assert time.monotonic() - began < 0.15
            writer.write(request(1, 3, b"is not read"))
            assert harness.dispatcher.seen == [1]
            assert [await read_response(reader) for _ in range(2)] == [(2, b"waits"), (3, b"is not read")]
            assert time.monotonic() - began >= 0.19
            writer.close()

        run(scenario)

    def test_other_connections_do_not_wait(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 60_000})
            reader, writer = await harness.connect()
            writer.write(request(1, 1))
            await read_response(reader)
            other_reader, other_writer = await harness.connect()
            other_writer.write(request(1, 2, b"other"))
            assert await read_response(other_reader) == (2, b"other")
            writer.close()
            other_writer.close()

        run(scenario)

    def test_longest_delay_counts_and_pending_responses_are_sent(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 300, 2: 50})
            reader, writer = await harness.connect()
            writer.write(request(0, 1) + request(0, 2))
            replicated = harness.dispatcher.replicated
            await wait_until(lambda: len(replicated) == 2)
            began = time.monotonic()
            replicated[0].complete(b"first")
            assert await read_response(reader) == (1, b"first")
            replicated[1].complete(b"second")
            assert await read_response(reader) == (2, b"second")
            writer.write(request(1, 3, b"third"))
            assert await read_response(reader) == (3, b"third")
            assert time.monotonic() - began >= 0.29
            writer.close()

        run(scenario)

    def test_request_without_a_response_mutes_its_connection(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 200})
            reader, writer = await harness.connect()
            began = time.monotonic()
            writer.write(request(6, 1) + request(1, 2, b"next"))
            assert await read_response(reader) == (2, b"next")
            assert time.monotonic() - began >= 0.19
            writer.close()

        run(scenario)

    def test_idle_limit_applies_to_them(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 60_000})
            reader, writer = await harness.connect()
            writer.write(request(1, 1))
            await read_response(reader)
            harness.clock.seconds += 2
            harness.limits.close_idle()
            assert await reader.read() == b""
            writer.close()

        run(scenario)

    def test_node_can_close_them(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            harness.dispatcher.throttle({1: 60_000})
            reader, writer = await harness.connect()
            writer.write(request(1, 1) + request(1, 2))
            await read_response(reader)
            (connection,) = harness.limits.connections()
            connection.close()
            assert await reader.read() == b""
            assert harness.dispatcher.seen == [1]
            writer.close()

        run(scenario)


class TestPipelinedProduceRequests:
    """Produce requests are handled while earlier ones wait for replicas; others wait. Responses keep their order."""

    def test_responses_are_sent_in_order_whichever_completes_first(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            writer.write(request(0, 1) + request(0, 2) + request(0, 3, b"at once") + request(0, 4))
            replicated = harness.dispatcher.replicated
            await wait_until(lambda: len(replicated) == 3)
            replicated[1].complete(b"second")
            assert await gets_no_response(reader)
            replicated[0].complete(b"first")
            assert [await read_response(reader) for _ in range(3)] == [(1, b"first"), (2, b"second"), (3, b"at once")]
            replicated[2].complete(b"fourth")
            assert await read_response(reader) == (4, b"fourth")
            writer.close()

        run(scenario)

    def test_request_to_another_api_waits_for_pending_responses(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            writer.write(request(0, 1))
            await wait_until(lambda: bool(harness.dispatcher.replicated))
            writer.write(request(1, 2, b"metadata"))
            writer.write(request(0, 3, b"at once"))
            assert await gets_no_response(reader)
            assert harness.dispatcher.seen == [1]
            harness.dispatcher.replicated[0].complete(b"first")
            responses = [await read_response(reader) for _ in range(3)]
            assert responses == [(1, b"first"), (2, b"metadata"), (3, b"at once")]
            writer.close()

        run(scenario)

    def test_only_requests_to_the_same_api_are_handled_meanwhile(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            writer.write(request(8, 1) + request(8, 2) + request(0, 3) + request(8, 4))
            replicated = harness.dispatcher.replicated
            await wait_until(lambda: len(replicated) == 2)
            assert await gets_no_response(reader)
            assert harness.dispatcher.seen == [1, 2]
            for number in range(4):
                await wait_until(lambda number=number: len(replicated) > number)  # type: ignore[misc]
                replicated[number].complete(b"%d" % number)
            assert [await read_response(reader) for _ in range(4)] == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"3")]
            writer.close()

        run(scenario)

    def test_number_of_pending_responses_is_bounded(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            count = PENDING_RESPONSES_MAX + 5
            for number in range(count):
                writer.write(request(0, number))
            replicated = harness.dispatcher.replicated
            await wait_until(lambda: len(replicated) == PENDING_RESPONSES_MAX)
            assert await gets_no_response(reader)
            assert len(replicated) == PENDING_RESPONSES_MAX
            for one in list(replicated):
                one.complete(b"")
            await wait_until(lambda: len(replicated) == count)
            for one in replicated[PENDING_RESPONSES_MAX:]:
                one.complete(b"")
            assert [(await read_response(reader))[0] for _ in range(count)] == list(range(count))
            writer.close()

        run(scenario)

    def test_pending_responses_are_sent_after_eof_but_not_after_reset(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            writer.write(request(0, 1))
            writer.write_eof()
            replicated = harness.dispatcher.replicated
            await wait_until(lambda: len(replicated) == 1)
            assert await gets_no_response(reader)
            replicated[0].complete(b"late")
            assert await read_response(reader) == (1, b"late")
            assert await reader.read() == b""
            _, other = await harness.connect()
            other.write(request(0, 1))
            await wait_until(lambda: len(replicated) == 2)
            # A reset, not the end of what it has to say.
            other.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.transport.abort()
            await wait_until(lambda: replicated[1].is_done)
            writer.close()

        run(scenario)

    def test_failed_deferred_response_closes_the_connection(self, run: Callable[[Scenario], None]) -> None:
        async def scenario(harness: Harness) -> None:
            reader, writer = await harness.connect()
            writer.write(request(0, 1) + request(0, 2))
            await wait_until(lambda: len(harness.dispatcher.replicated) == 2)
            harness.dispatcher.replicated[1].fail(RuntimeError("a fault of ours"))
            assert await reader.read() == b""
            await wait_until(lambda: harness.dispatcher.replicated[0].is_done)
            writer.close()

        run(scenario)


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_flood_behind_a_pending_request_is_not_read_from_the_socket(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(2, 0))
        flood = 40 * WAITING_FRAMES_MAX
        payload = b"x" * 8_000
        sender = asyncio.ensure_future(_send_all(writer, [request(1, 1 + i, payload) for i in range(flood)]))
        await asyncio.sleep(0.2)
        (connection,) = harness.limits.connections()
        assert isinstance(connection, ClientConnection)
        # What one read of the socket brings may come on top of the bound, and no more.
        assert len(connection._waiting) <= WAITING_FRAMES_MAX + 262_144 // 8_000 + 1
        harness.dispatcher.release.set()
        assert [(await read_response(reader))[0] for _ in range(flood + 1)] == list(range(flood + 1))
        await sender
        writer.close()

    run(scenario)


async def _send_all(writer: asyncio.StreamWriter, frames: list[bytes]) -> None:
    for frame in frames:
        writer.write(frame)
        await writer.drain()


@pytest.mark.parametrize(
    "hostile",
    [
        request(3, 1),
        request(5, 1),
        request(99, 1),
        struct.pack(">i", -1),
        struct.pack(">i", REQUEST_BYTES_MAX + 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 14) + struct.pack(">hhih", 1, 0, 1, 500) + b"abcd",
        struct.pack(">i", 14) + struct.pack(">hhih", 1, 0, 1, 4) + b"\xff\xfe\xff\xff",
    ],
    ids=["fault", "hang up", "unknown", "negative", "too large", "short", "long client id", "no utf-8"],
)
def test_invalid_request_closes_its_own_connection_only(run: Callable[[Scenario], None], hostile: bytes) -> None:
    async def scenario(harness: Harness) -> None:
        bystander, bystander_writer = await harness.connect()
        reader, writer = await harness.connect()
        writer.write(hostile)
        assert await reader.read() == b""
        bystander_writer.write(request(1, 7, b"still here"))
        assert await read_response(bystander) == (7, b"still here")
        bystander_writer.close()
        writer.close()

    run(scenario)


def test_exception_in_a_coroutine_handler_closes_the_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        harness.dispatcher.release.set()
        writer.write(request(4, 1) + request(1, 2))
        assert await reader.read() == b""
        writer.close()

    run(scenario)


@pytest.mark.parametrize("api_key", [11, 12])
def test_connection_is_closed_while_the_acls_are_not_loaded(
    run: Callable[[Scenario], None], api_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        harness.dispatcher.release.set()
        writer.write(request(api_key, 1))
        assert await reader.read() == b""
        writer.close()

    caplog.set_level("INFO")
    run(scenario)
    (record,) = (one for one in caplog.records if "Closing connection" in one.getMessage())
    assert "the ACLs are not loaded yet" in record.getMessage()
    assert not any(one.exc_info for one in caplog.records)


def test_response_that_cannot_be_encoded_closes_its_own_connection_only(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        faults: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        # As the response of a coroutine, of a pending Produce, and of the next turn of a busy connection.
        for requests in (request(9, 1), request(0, 1), request(2, 1) + request(9, 2)):
            reader, writer = await harness.connect()
            writer.write(requests)
            await wait_until(lambda: bool(harness.dispatcher.seen))
            for replicated in harness.dispatcher.replicated:
                replicated.complete(object())
            harness.dispatcher.release.set()
            await reader.read()
            writer.close()
            harness.dispatcher.seen.clear()
        assert faults == []

    run(scenario)


def test_stream_that_cannot_be_read_closes_its_own_connection_only(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        faults: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        reader, writer = await harness.connect()
        writer.write(request(10, 1))
        with contextlib.suppress(ConnectionResetError):
            assert len(await reader.read()) <= STREAM_BYTES + 8
        writer.close()
        assert faults == []

    run(scenario)


def test_request_without_response_is_followed_by_the_next(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(6, 1) + request(1, 2, b"next"))
        assert await read_response(reader) == (2, b"next")
        writer.close()

    run(scenario)


async def exchange(link: tuple[asyncio.StreamReader, asyncio.StreamWriter], correlation_id: int) -> int:
    link[1].write(request(1, correlation_id))
    return (await read_response(link[0]))[0]


async def gets_no_response(reader: asyncio.StreamReader) -> bool:
    """No response, and the connection stays open."""
    try:
        async with asyncio.timeout(0.1):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


def test_connection_above_max_connections_waits(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 100
        opened = [await harness.connect() for _ in range(3)]
        for number, link in enumerate(opened):
            assert await exchange(link, number) == number
        first, second = await harness.connect(), await harness.connect()
        for reader, writer in (first, second):
            writer.write(request(1, 7))
            assert await gets_no_response(reader)
        opened[0][1].close()
        assert (await read_response(first[0]))[0] == 7
        assert await gets_no_response(second[0])
        # Open connections are served as before.
        assert await exchange(opened[1], 8) == 8
        for _, writer in (*opened, first, second):
            writer.close()

    run(scenario)


def test_waiting_connection_that_closes_is_not_admitted(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 100
        opened = [await harness.connect() for _ in range(3)]
        impatient, patient = await harness.connect(), await harness.connect()
        impatient[1].close()
        await asyncio.sleep(0.05)
        opened[0][1].close()
        assert await exchange(patient, 5) == 5
        for _, writer in (*opened, patient):
            writer.close()

    run(scenario)


def test_connections_above_the_waiting_limit_are_rejected(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 100
        links = [await harness.connect() for _ in range(3 + WAITING_CONNECTIONS_MAX)]
        reader, writer = await harness.connect()
        assert await reader.read() == b""
        for _, one in (*links, (reader, writer)):
            one.close()

    run(scenario)


def test_changed_connection_limits_take_effect_at_once(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.change(connections_max=3, per_address_max=100, per_address_overrides={})
        opened = [await harness.connect() for _ in range(3)]
        waiting = await harness.connect()
        for number, link in enumerate(opened):
            assert await exchange(link, number) == number
        harness.limits.change(connections_max=4, per_address_max=100, per_address_overrides={})
        assert await exchange(waiting, 9) == 9
        # Lowered, the idlest have to go.
        harness.limits.change(connections_max=2, per_address_max=100, per_address_overrides={})
        for reader, _ in opened[:2]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert await exchange(opened[2], 3) == 3
        assert await exchange(waiting, 4) == 4
        harness.limits.change(connections_max=100, per_address_max=100, per_address_overrides={"127.0.0.1": 2})
        reader, refused = await harness.connect()
        assert await reader.read() == b""
        for _, writer in (*opened, waiting, (reader, refused)):
            writer.close()

    run(scenario)


def test_requests_sent_before_eof_are_handled(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        _, writer = await harness.connect()
        writer.write(request(2, 1) + request(6, 2) + request(6, 3))
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.1)
        assert harness.dispatcher.seen == [1]
        harness.dispatcher.release.set()
        while harness.limits.connections():
            await asyncio.sleep(0.01)
        assert harness.dispatcher.seen == [1, 2, 3]

    run(scenario)


def test_requests_before_an_invalid_frame_get_responses(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        harness.dispatcher.release.set()
        writer.write(request(1, 1) + request(2, 2) + struct.pack(">i", -5) + request(1, 3))
        assert [(await read_response(reader))[0] for _ in range(2)] == [1, 2]
        assert await reader.read() == b""
        assert harness.dispatcher.seen == [1, 2]
        writer.close()

    run(scenario)


def test_little_is_read_behind_a_pending_request(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 100
        listener = Listener(
            "LARGE", "127.0.0.1", 0, harness.limits, harness.streaming, request_bytes_max=100 << 20, backlog=10
        )
        await listener.bind()
        await listener.serve(harness.dispatcher)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        large = request(1, 1, bytes(20 << 20))
        writer.write(request(2, 0) + large)
        await asyncio.sleep(0.3)
        (connection,) = harness.limits.connections()
        assert connection._reader.held_bytes <= WAITING_BYTES_MAX + (256 << 10)
        harness.dispatcher.release.set()
        assert [await read_response(reader) for _ in range(2)] == [(0, b"later"), (1, bytes(20 << 20))]
        writer.close()
        listener.stop_accepting()

    run(scenario)


def test_flood_of_small_requests_does_not_starve_other_connections(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        flooder, flooder_writer = await harness.connect()
        bystander = await harness.connect()
        assert await exchange(bystander, 0) == 0
        flooder_writer.write(b"".join(request(6, 10 + number) for number in range(2000)))
        await asyncio.sleep(0)
        assert await exchange(bystander, 1) == 1
        # The response is sent during the flood, not after it.
        assert 10 in harness.dispatcher.seen
        assert harness.dispatcher.seen.index(1) < 1900
        flooder_writer.write(request(1, 9))
        assert (await read_response(flooder))[0] == 9
        assert [one for one in harness.dispatcher.seen if one >= 10] == list(range(10, 2010))
        for writer in (flooder_writer, bystander[1]):
            writer.close()

    run(scenario)


def test_connection_above_max_connections_per_ip_is_rejected(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 1
        _, first = await harness.connect()
        refused, writer = await harness.connect()
        assert await refused.read() == b""
        first.close()
        writer.close()

    run(scenario)


def test_idle_connection_is_closed(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        quiet, quiet_writer = await harness.connect()
        quiet_writer.write(request(1, 1))
        await read_response(quiet)
        harness.clock.seconds += 0.5
        busy, busy_writer = await harness.connect()
        busy_writer.write(request(1, 1))
        await read_response(busy)
        harness.clock.seconds += 0.6
        harness.limits.close_idle()
        assert await quiet.read() == b""
        busy_writer.write(request(1, 2))
        assert (await read_response(busy))[0] == 2
        quiet_writer.close()
        busy_writer.close()

    run(scenario)


def test_port_in_use_is_reported(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        second = Listener(
            "PLAINTEXT",
            "127.0.0.1",
            harness.listener.port,
            harness.limits,
            harness.streaming,
            request_bytes_max=1,
            backlog=1,
        )
        with pytest.raises(ListenError, match="address already in use"):
            await second.bind()

    run(scenario)


def test_client_id_may_change_on_a_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        for number, name in enumerate((b"one", b"one", b"", b"other", b"one")):
            frame = struct.pack(">hhih", 1, 0, number, len(name)) + name + b"body"
            writer.write(struct.pack(">i", len(frame)) + frame)
            assert await read_response(reader) == (number, b"body")
        writer.write(request(1, 9, b"no name at all"))
        assert await read_response(reader) == (9, b"no name at all")
        writer.close()

    run(scenario)


def test_open_and_close_are_logged_at_debug_with_the_address(
    run: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        port = writer.get_extra_info("sockname")[1]
        writer.write(request(1, 1, b"body"))
        assert await read_response(reader) == (1, b"body")
        writer.close()
        await wait_until(lambda: len(caplog.records) == 2)
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            ("DEBUG", f"Connection from 127.0.0.1:{port} opened on listener PLAINTEXT"),
            ("DEBUG", f"Connection from 127.0.0.1:{port} closed by client"),
        ]

    with caplog.at_level(logging.DEBUG, "odradek.server"):
        run(scenario)


def test_rejected_request_is_logged_at_info_and_the_close_at_debug(
    run: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        port = writer.get_extra_info("sockname")[1]
        writer.write(struct.pack(">i", REQUEST_BYTES_MAX + 1))
        assert await reader.read() == b""
        writer.close()
        await wait_until(lambda: len(caplog.records) == 3)
        assert [(record.levelname, record.getMessage()) for record in caplog.records[1:]] == [
            (
                "INFO",
                f"Closing connection from 127.0.0.1:{port}: a request of {REQUEST_BYTES_MAX + 1} bytes exceeds "
                f"socket.request.max.bytes ({REQUEST_BYTES_MAX})",
            ),
            ("DEBUG", f"Connection from 127.0.0.1:{port} closed by this node"),
        ]

    with caplog.at_level(logging.DEBUG, "odradek.server"):
        run(scenario)
