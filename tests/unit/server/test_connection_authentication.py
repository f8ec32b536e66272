"""A connection on a SASL listener: delays, deadlines, threads and the end of sessions, over real sockets."""

import asyncio
import gc
import struct
import weakref
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest
import uvloop
from kio.schema.errors import ErrorCode

from odradek.base.ports import Pool
from odradek.base.principal import Principal
from odradek.core.quotas.node_quotas import unlimited_quotas
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.host.executor import ThreadExecutor
from odradek.instruments.requests import UNCOUNTED, RequestMeter
from odradek.server import connection_authentication
from odradek.server.connection import ClientConnection
from odradek.server.context import RequestContext
from odradek.server.limits import NodeConnectionLimits
from odradek.server.peer import NotAuthenticated, Peer
from odradek.server.response_sender import Streaming
from odradek.server.security import ListenerSecurity, PeerSecurity
from odradek.wire.headers import RequestHeader
from odradek.wire.sasl.plain import PlainClient
from odradek.wire.schemas import Schema, schema
from tests.unit.server.sasl_stage import (
    ALICE,
    AUTHENTICATE,
    HANDSHAKE,
    METADATA,
    StageSasl,
    authenticate,
    handshake,
    metadata,
    read,
    versions,
)

T = TypeVar("T")
TIMEOUT_S = 10.0
LOGIN = authenticate(b"\0alice\0secret")
WRONG = authenticate(b"\0alice\0wrong")


def served(context: RequestContext) -> tuple[Any, ...]:
    ranges = {HANDSHAKE: (0, 1), AUTHENTICATE: (0, 2), METADATA: (1, 1)}
    return tuple(
        context.new("ApiVersion", api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
    )


class Dispatcher:
    """Responds to ApiVersions, and to other requests with the name of the principal."""

    client_quotas = unlimited_quotas()

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.asked_for: list[Principal] = []

    def schema_of(self, header: RequestHeader) -> Schema:
        return schema(header.api_key, header.api_version)

    def access_of(self, principal: Principal, host: str) -> Access:
        self.asked_for.append(principal)
        return UNRESTRICTED

    def meter_of(self, messages: Any) -> RequestMeter:
        return UNCOUNTED

    def refuse_version(self, header: RequestHeader) -> bytes | None:
        return None

    def dispatch(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        self.contexts.append(context)
        if context.api_key == 18:
            return context.new(
                "ApiVersionsResponse", error_code=ErrorCode.none, api_keys=served(context), throttle_time=timedelta(0)
            )
        return context.principal.name.encode()

    def dispatch_limited(self, frame: bytearray, body: int, context: RequestContext) -> Any:
        return self.dispatch(frame, body, context)


class SlowThread:
    """Runs work when it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await self.released.wait()
        return work()


class Stage:
    def __init__(self) -> None:
        self.sasl = StageSasl()
        self.dispatcher = Dispatcher()
        self.connections: list[weakref.ref[ClientConnection]] = []
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    def send(self, *frames: bytes | bytearray) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), TIMEOUT_S))
        return await self.reader.readexactly(size)

    async def log_in(self) -> None:
        self.send(handshake(), LOGIN)
        assert read(HANDSHAKE, 1, await self.receive()).error_code is ErrorCode.none
        assert read(AUTHENTICATE, 2, await self.receive()).error_code is ErrorCode.none

    async def wait_for_end(self) -> None:
        assert await asyncio.wait_for(self.reader.read(), TIMEOUT_S) == b""


def run(scenario: Callable[[Stage], Coroutine[Any, Any, None]], loop: str) -> None:
    async def main() -> None:
        stage = Stage()
        threads = ThreadExecutor(dict.fromkeys(Pool, 1))
        limits = NodeConnectionLimits(
            stage.sasl.clock, connections_max=10, per_address_max=10, per_address_overrides={}, idle_ms_max=-1
        )

        def new_connection() -> ClientConnection:
            security = ListenerSecurity(protocol="SASL_PLAINTEXT", sasl=stage.sasl)
            one = ClientConnection(
                stage.dispatcher, limits, "CLIENTS", 1_000_000, Streaming(threads), security=security
            )
            stage.connections.append(weakref.ref(one))
            return one

        server = await asyncio.get_running_loop().create_server(new_connection, "127.0.0.1", 0)
        try:
            stage.reader, stage.writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await scenario(stage)
        finally:
            stage.writer.close()
            server.close()
            threads.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(main())


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_pipelined_requests_are_handled_as_the_authenticated_principal(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.send(versions(), handshake(), LOGIN, metadata(), metadata())
        for _ in range(3):
            await stage.receive()
        assert (await stage.receive())[4:] == b"alice"
        assert (await stage.receive())[4:] == b"alice"
        assert stage.dispatcher.asked_for[-1] == ALICE
        assert stage.dispatcher.contexts[-1].principal == ALICE
        assert stage.dispatcher.contexts[-1].security_protocol == "SASL_PLAINTEXT"
        assert stage.sasl.counts.successful == 1

    run(scenario, loop)


def test_failure_is_delayed_without_serving_further_requests(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.send(handshake(), WRONG, LOGIN, metadata())
        await stage.receive()
        begun = asyncio.get_running_loop().time()
        response = read(AUTHENTICATE, 2, await stage.receive())
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert asyncio.get_running_loop().time() - begun >= stage.sasl.failure_delay_seconds - 0.02
        await stage.wait_for_end()
        assert stage.dispatcher.contexts == []
        assert [one.mechanism for one in stage.sasl.failures] == ["PLAIN"]
        assert stage.sasl.failures[0].listener_name == "CLIENTS"
        assert (stage.sasl.counts.failed, stage.sasl.counts.successful) == (1, 0)

    run(scenario, loop)


def test_flood_behind_a_failure_is_not_read(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sasl.failure_delay_seconds = 0.5
        stage.send(handshake(), WRONG)
        await stage.receive()
        for _ in range(200):
            stage.send(bytes(10_000))
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        connection = stage.connections[0]()
        assert connection is not None
        # What one read of the socket brings, and no more.
        assert connection._waiting_bytes + connection._reader.held_bytes <= 262_144

    run(scenario, loop)


def test_exchange_in_a_thread_delays_the_requests_behind_it(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sasl.executor = threads = SlowThread()  # type: ignore[assignment]
        stage.sasl.token_expires_at_ms = stage.sasl.clock.wall_ms() + 60_000
        stage.send(handshake("TOKEN"), authenticate(b"\0alice\0token"), metadata())
        await stage.receive()
        await asyncio.sleep(0.05)
        assert stage.dispatcher.contexts == []
        threads.released.set()
        response = read(AUTHENTICATE, 2, await stage.receive())
        assert response.session_lifetime.total_seconds() == 60
        assert (await stage.receive())[4:] == b"alice"

    run(scenario, loop)


def test_client_that_does_not_authenticate_is_disconnected(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_authentication, "AUTHENTICATION_SECONDS_MAX", 0.1)

    async def scenario(stage: Stage) -> None:
        stage.send(handshake())
        await stage.receive()
        await stage.wait_for_end()

    run(scenario, loop)


def test_authenticated_client_has_no_deadline(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_authentication, "AUTHENTICATION_SECONDS_MAX", 1.0)

    async def scenario(stage: Stage) -> None:
        await stage.log_in()
        await asyncio.sleep(1.05)
        stage.send(metadata())
        assert (await stage.receive())[4:] == b"alice"

    run(scenario, loop)


def test_large_request_is_refused_before_and_read_after_the_login(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.log_in()
        large = metadata() + bytes(100_000)
        stage.send(large)
        assert (await stage.receive())[4:] == b"alice"
        stage.writer.close()
        host, port = stage.writer.get_extra_info("peername")
        stage.reader, stage.writer = await asyncio.open_connection(host, port)
        stage.writer.write(struct.pack(">i", len(large)))
        await stage.wait_for_end()
        assert stage.sasl.counts.failed == 1

    run(scenario, loop)


def test_request_with_a_cached_context_expires_with_the_session(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sasl.reauthentication_ms = 100
        await stage.log_in()
        stage.send(metadata())
        assert (await stage.receive())[4:] == b"alice"
        stage.sasl.clock.seconds += 0.2
        # The connection stays open until the next request.
        await asyncio.sleep(0.15)
        stage.send(metadata())
        await stage.wait_for_end()
        assert stage.sasl.counts.expired_connections == 1
        assert len(stage.dispatcher.contexts) == 1

    run(scenario, loop)


def test_clients_may_authenticate_again_and_again(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sasl.reauthentication_ms = 5_000
        await stage.log_in()
        for _ in range(3):
            stage.sasl.clock.seconds += 2
            stage.send(metadata())
            assert (await stage.receive())[4:] == b"alice"
            await stage.log_in()
        assert stage.sasl.counts.successful_reauthentications == 3
        stage.send(metadata())
        assert (await stage.receive())[4:] == b"alice"

    run(scenario, loop)


def test_client_that_leaves_during_the_delay_frees_its_connection(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.send(handshake(), WRONG)
        await stage.receive()
        gc.disable()
        try:
            stage.writer.transport.abort()
            await asyncio.sleep(0.3)
            assert stage.connections[0]() is None
        finally:
            gc.enable()

    run(scenario, loop)


# Peers


def peer_of(stage: Stage, password: str, **more: Any) -> Peer:
    host, port = stage.writer.get_extra_info("peername")
    security = PeerSecurity(new_sasl_exchange=lambda: PlainClient("alice", password), executor=stage.sasl.executor)
    return Peer(host, port, client_id="node", security=security, **more)


def test_peer_authenticates_before_its_requests(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        peer = peer_of(stage, "secret")
        await peer.connect()
        assert peer.is_connected
        assert stage.sasl.counts.successful == 1
        peer.close()

    run(scenario, loop)


def test_rejected_peer_says_why_and_logs_it_once(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        peer = peer_of(stage, "wrong")
        for _ in range(2):
            with pytest.raises(NotAuthenticated, match="Invalid username or password"):
                await peer.connect()
        assert not peer.is_connected
        assert stage.sasl.counts.failed == 2
        peer.close()

    run(scenario, loop)
    warnings = [one.getMessage() for one in caplog.records if one.name == "odradek.server.peer"]
    assert len(warnings) == 1
    assert "Authentication failed: Invalid username or password" in warnings[0]
    assert "wrong" not in warnings[0]


def test_peer_opens_a_new_connection_before_its_session_expires(loop: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sasl.reauthentication_ms = 200
        ends = []
        peer = peer_of(stage, "secret", on_disconnect=lambda: ends.append(1))
        await peer.connect()
        await asyncio.sleep(0.25)
        assert not peer.is_connected
        await peer.connect()
        assert stage.sasl.counts.successful == 2
        assert ends == []
        peer.close()

    run(scenario, loop)
