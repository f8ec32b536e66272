"""One connection's rules: answers in the order of requests, bounds on what waits, faults that stay where they are."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from odradek.handlers.context import CLOSE_CONNECTION, RequestContext
from odradek.net.connection import WAITING_FRAMES_MAX, ClientConnection, UnsupportedRequest
from odradek.net.limits import NodeConnectionLimits
from odradek.net.server import Listener, ListenError
from odradek.protocol.headers import RequestHeader
from odradek.protocol.schemas import Schema, schema

REQUEST_BYTES_MAX = 10_000
Scenario = Callable[["Harness"], Coroutine[Any, Any, None]]


class Clock:
    seconds = 0.0

    def wall_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds


class Scripted:
    """Answers by api key: 1 at once, 2 when released, 3 fails, 4 fails later, 5 hangs up, 6 says nothing."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.seen: list[int] = []

    def schema_of(self, header: RequestHeader) -> Schema:
        if header.api_key == 99:
            raise UnsupportedRequest("no such API")
        return schema(3, 0)

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        return None

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        self.seen.append(context.correlation_id)
        match context.api_key:
            case 1:
                return bytes(frame[body:])
            case 2:
                return self._later(b"later")
            case 3:
                raise RuntimeError("a fault of ours")
            case 4:
                return self._later(RuntimeError("a fault of ours"))
            case 5:
                return CLOSE_CONNECTION
            case _:
                return None

    async def _later(self, answer: bytes | Exception) -> bytes:
        await self.release.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Harness:
    def __init__(self) -> None:
        self.clock = Clock()
        self.dispatcher = Scripted()
        self.limits = NodeConnectionLimits(
            self.clock, connections_max=3, per_address_max=3, per_address_overrides={}, idle_ms_max=1000
        )
        self.listener = Listener(
            "PLAINTEXT",
            "127.0.0.1",
            0,
            self.limits,
            request_bytes_max=REQUEST_BYTES_MAX,
            backlog=10,
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)


def request(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhih", api_key, 0, correlation_id, -1) + body
    return struct.pack(">i", len(frame)) + frame


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
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


def test_answers_come_in_the_order_of_requests(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(2, 1) + request(1, 2, b"now") + request(2, 3))
        await writer.drain()
        while not harness.dispatcher.seen:
            await asyncio.sleep(0.001)
        assert harness.dispatcher.seen == [1]
        harness.dispatcher.release.set()
        assert [await answer(reader) for _ in range(3)] == [(1, b"later"), (2, b"now"), (3, b"later")]
        writer.close()

    run(scenario)


def test_a_flood_behind_a_waiting_request_is_left_in_the_socket(run: Callable[[Scenario], None]) -> None:
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
        assert [(await answer(reader))[0] for _ in range(flood + 1)] == list(range(flood + 1))
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
def test_a_bad_request_ends_its_own_connection_only(run: Callable[[Scenario], None], hostile: bytes) -> None:
    async def scenario(harness: Harness) -> None:
        bystander, bystander_writer = await harness.connect()
        reader, writer = await harness.connect()
        writer.write(hostile)
        assert await reader.read() == b""
        bystander_writer.write(request(1, 7, b"still here"))
        assert await answer(bystander) == (7, b"still here")
        bystander_writer.close()
        writer.close()

    run(scenario)


def test_a_fault_while_waiting_ends_the_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        harness.dispatcher.release.set()
        writer.write(request(4, 1) + request(1, 2))
        assert await reader.read() == b""
        writer.close()

    run(scenario)


def test_no_answer_and_on_to_the_next(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        reader, writer = await harness.connect()
        writer.write(request(6, 1) + request(1, 2, b"next"))
        assert await answer(reader) == (2, b"next")
        writer.close()

    run(scenario)


def test_one_connection_too_many_pushes_out_the_idlest(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 100
        opened = [await harness.connect() for _ in range(3)]
        for number, (reader, writer) in enumerate(opened):
            harness.clock.seconds += 1
            writer.write(request(1, number))
            await answer(reader)
        newcomer, newcomer_writer = await harness.connect()
        newcomer_writer.write(request(1, 9))
        assert (await answer(newcomer))[0] == 9
        assert await opened[0][0].read() == b""
        for _, writer in opened:
            writer.close()
        newcomer_writer.close()

    run(scenario)


def test_an_address_over_its_limit_is_refused(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        harness.limits.per_address_max = 1
        _, first = await harness.connect()
        refused, writer = await harness.connect()
        assert await refused.read() == b""
        first.close()
        writer.close()

    run(scenario)


def test_a_silent_connection_is_closed(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        quiet, quiet_writer = await harness.connect()
        quiet_writer.write(request(1, 1))
        await answer(quiet)
        harness.clock.seconds += 0.5
        busy, busy_writer = await harness.connect()
        busy_writer.write(request(1, 1))
        await answer(busy)
        harness.clock.seconds += 0.6
        harness.limits.close_idle()
        assert await quiet.read() == b""
        busy_writer.write(request(1, 2))
        assert (await answer(busy))[0] == 2
        quiet_writer.close()
        busy_writer.close()

    run(scenario)


def test_a_port_in_use_says_so(run: Callable[[Scenario], None]) -> None:
    async def scenario(harness: Harness) -> None:
        second = Listener(
            "PLAINTEXT",
            "127.0.0.1",
            harness.listener.port,
            harness.limits,
            request_bytes_max=1,
            backlog=1,
        )
        with pytest.raises(ListenError, match="is in use"):
            await second.bind()

    run(scenario)
