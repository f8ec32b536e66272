"""TLS on connections between nodes: handshakes that succeed, fail, stall, or are computed in threads."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from odradek.base.ports import Pool
from odradek.host.executor import ThreadExecutor
from odradek.host.key_stores.pem import read_pem_certificates, read_pem_keys
from odradek.host.key_stores.store import Store
from odradek.host.tls_contexts import TlsRules, new_client_context, new_server_context
from odradek.server import tls_connection
from odradek.server.peer import Disconnected, HandshakeFailed, Peer, Unreachable
from odradek.server.security import PeerSecurity
from odradek.server.tls_connection import Handshakes, ServerTls, problem_of_first_bytes
from tests.certificates import Authority, Issued
from tests.unit.server.peer_stage import HEARTBEAT, Node, Scenario, ScriptedNode, heartbeat

Play = Callable[[Scenario], None]
RULES = TlsRules(versions=("TLSv1.2", "TLSv1.3"), ciphers=None)
AUTHORITY = Authority()
NODE = AUTHORITY.issue("node")
TRUST = Store(trusted=read_pem_certificates(AUTHORITY.pem))


def keys_of(issued: Issued) -> Store:
    return read_pem_keys(issued.certificate, issued.key, key_password=None)


def server_context(issued: Issued = NODE, client_auth: str = "none", rules: TlsRules = RULES) -> ssl.SSLContext:
    return new_server_context(rules, keys_of(issued), TRUST, client_auth)


def peer_security(issued: Issued | None = None, trust: Store = TRUST, *, checks_host: bool = True) -> PeerSecurity:
    context = new_client_context(RULES, issued and keys_of(issued), trust, checks_host=checks_host)
    return PeerSecurity(tls=lambda: context)


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """TLS does not run in the simulator: its randomness is OpenSSL's."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def on_sockets(scenario: Scenario) -> None:
        async def main() -> None:
            async with asyncio.timeout(20):
                await scenario()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return on_sockets


class TlsStage:
    """A scripted node behind TLS. `on_secured` appends each client's certificate."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.node = ScriptedNode()
        self.node.on_request = Node.send_heartbeat_response
        self.context = context
        self.certificates: list[bytes | None] = []
        self.executor = ThreadExecutor(dict.fromkeys(Pool, 2))
        self.handshakes: Handshakes
        self.port = 0

    def peer(self, security: PeerSecurity, host: str = "localhost", **options: Any) -> Peer:
        return Peer(host, self.port, client_id="test", security=security, **options)

    def new_protocol(self) -> ServerTls:
        return ServerTls(
            Node(self.node),
            lambda: self.context,
            self.handshakes,
            on_secured=self.certificates.append,
            listener_name="STAGE",
        )


@asynccontextmanager
async def stage_of(context: ssl.SSLContext | None = None) -> AsyncIterator[TlsStage]:
    stage = TlsStage(context or server_context())
    loop = asyncio.get_running_loop()
    stage.handshakes = Handshakes(stage.executor, loop.time)
    server = await loop.create_server(stage.new_protocol, "localhost", 0)
    stage.port = server.sockets[0].getsockname()[1]
    try:
        yield stage
    finally:
        server.close()
        for connection in stage.node.connections:
            if not connection.is_lost:
                connection.transport.abort()
        stage.executor.close()


def test_request_and_response(play: Play) -> None:
    async def scenario() -> None:
        async with stage_of() as stage:
            peer = stage.peer(peer_security())
            await peer.request(HEARTBEAT, heartbeat, timeout_seconds=5)
            assert stage.certificates == [None]
            peer.close()

    play(scenario)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_certificate_is_passed_on(play: Play, version: str) -> None:
    async def scenario() -> None:
        rules = TlsRules(versions=(version,), ciphers=None)
        async with stage_of(server_context(client_auth="required", rules=rules)) as stage:
            client = AUTHORITY.issue("client")
            peer = stage.peer(peer_security(client))
            await peer.request(HEARTBEAT, heartbeat, timeout_seconds=5)
            assert stage.certificates == [client.der]
            peer.close()

    play(scenario)


def test_handshakes_beyond_the_share_of_the_loop_run_in_threads(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_connection, "LOOP_SHARE_MAX", -1.0)
    monkeypatch.setattr(tls_connection, "WINDOW_SECONDS", 3600.0)

    async def scenario() -> None:
        async with stage_of(server_context(client_auth="required")) as stage:
            stage.handshakes._window_began_at = asyncio.get_running_loop().time()
            peers = [stage.peer(peer_security(AUTHORITY.issue("client"))) for _ in range(20)]
            await asyncio.gather(*(peer.request(HEARTBEAT, heartbeat, timeout_seconds=10) for peer in peers))
            assert len(stage.certificates) == 20
            for peer in peers:
                peer.close()

    play(scenario)


@pytest.mark.parametrize("kind", ["other host", "expired", "untrusted"])
def test_certificates_of_nodes_are_verified(play: Play, kind: str) -> None:
    issued = {
        "other host": AUTHORITY.issue("node", hosts=("elsewhere.example",)),
        "expired": AUTHORITY.issue("node", days=-1),
        "untrusted": Authority("Other").issue("node"),
    }[kind]
    reason = {
        "other host": "Hostname mismatch",
        "expired": "certificate has expired",
        "untrusted": "unable to get local issuer certificate",
    }[kind]

    async def scenario() -> None:
        async with stage_of(server_context(issued)) as stage:
            with pytest.raises(HandshakeFailed, match=reason) as raised:
                await stage.peer(peer_security()).connect()
            assert "\n" not in str(raised.value)
            if kind == "other host":
                peer = stage.peer(peer_security(checks_host=False))
                await peer.connect()
                peer.close()

    play(scenario)


def test_missing_client_certificate_is_reported_once(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with stage_of(server_context(client_auth="required")) as stage:
            peer = stage.peer(peer_security())
            for _ in range(3):
                with pytest.raises(Disconnected, match="certificate required"):
                    await peer.connect()

    play(scenario)
    assert [one.levelno for one in caplog.records if "Cannot connect" in one.message] == [logging.WARNING]


def test_node_without_tls_is_reported(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            with pytest.raises((HandshakeFailed, Disconnected, Unreachable)):
                await node.peer(security=peer_security(), connect_timeout_seconds=0.1).connect()

    play(scenario)


def test_stalled_handshake_is_closed(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_connection, "HANDSHAKE_SECONDS_MAX", 0.05)
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with stage_of() as stage:
            reader, writer = await asyncio.open_connection("localhost", stage.port)
            writer.write(b"\x16\x03\x01")
            assert await asyncio.wait_for(_read_to_end(reader), 5) == b""
            writer.close()

    play(scenario)
    assert any("no handshake within 0.05 s" in text for text in caplog.messages)


def test_connection_without_bytes_is_only_debug(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with stage_of() as stage:
            _, writer = await asyncio.open_connection("localhost", stage.port)
            writer.close()
            await stage.node.wait_until(lambda: any(one.is_lost for one in stage.node.connections))

    play(scenario)
    assert [one.levelno for one in caplog.records if "TLS handshake" in one.message] == [logging.DEBUG]


def test_handshake_is_bounded(play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tls_connection, "HANDSHAKE_BYTES_MAX", 1000)
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with stage_of() as stage:
            reader, writer = await asyncio.open_connection("localhost", stage.port)
            # A ClientHello of 15,000 bytes in records of 500.
            writer.write(bytes.fromhex("16030101f4 01 003a98") + bytes(496))
            for _ in range(5):
                writer.write(bytes.fromhex("16030101f4") + bytes(500))
            await asyncio.wait_for(_read_to_end(reader), 5)
            writer.close()

    play(scenario)
    assert any("exceeds 1000 bytes" in text or "handshake failed" in text for text in caplog.messages)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("00000020", "the client does not speak TLS"),
        ("47455420", "the client does not speak TLS"),
        ("16030100c8010000c4", None),
        ("1603010200", None),
        ("160301400001004001", "the ClientHello exceeds 16384 bytes"),
    ],
)
def test_first_bytes(data: str, problem: str | None) -> None:
    assert problem_of_first_bytes(bytes.fromhex(data)) == problem


def test_announced_client_hello_is_bounded_in_small_pieces(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with stage_of() as stage:
            reader, writer = await asyncio.open_connection("localhost", stage.port)
            for byte in bytes.fromhex("160301400001 01ffff"):
                writer.write(bytes((byte,)))
                await asyncio.sleep(0.001)
            await asyncio.wait_for(_read_to_end(reader), 5)
            writer.close()

    play(scenario)
    assert any("the ClientHello exceeds 16384 bytes" in text for text in caplog.messages)


class Echo(asyncio.Protocol):
    """Pauses for a moment after every piece, then sends it back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.pause_reading()
        self.transport.write(data)
        asyncio.get_running_loop().call_later(0.001, self.transport.resume_reading)

    def eof_received(self) -> bool:
        return False


def test_protocol_that_pauses_reading_receives_everything_in_order(play: Play) -> None:
    async def scenario() -> None:
        async with stage_of() as stage:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(
                lambda: ServerTls(
                    Echo(), lambda: stage.context, stage.handshakes, on_secured=lambda _: None, listener_name="ECHO"
                ),
                "localhost",
                0,
            )
            port = server.sockets[0].getsockname()[1]
            client = new_client_context(RULES, None, TRUST, checks_host=True)
            reader, writer = await asyncio.open_connection("localhost", port, ssl=client)
            data = bytes(range(256)) * 4096
            writer.write(data)
            assert await asyncio.wait_for(reader.readexactly(len(data)), 20) == data
            writer.close()
            server.close()

    play(scenario)


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


class Collector(asyncio.Protocol):
    """Pauses reading at the first bytes, until the test resumes it."""

    def __init__(self) -> None:
        self.events: list[bytes | str] = []
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if not self.events:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(0.05, self.transport.resume_reading)
        self.events.append(data)

    def eof_received(self) -> bool:
        self.events.append("end")
        self.ended.set()
        return False


def test_end_of_the_stream_follows_the_bytes_that_were_held(play: Play) -> None:
    async def scenario() -> None:
        async with stage_of() as stage:
            loop, collector = asyncio.get_running_loop(), Collector()
            server = await loop.create_server(
                lambda: ServerTls(
                    collector, lambda: stage.context, stage.handshakes, on_secured=lambda _: None, listener_name="C"
                ),
                "localhost",
                0,
            )
            client = new_client_context(RULES, None, TRUST, checks_host=True)
            port = server.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("localhost", port, ssl=client)
            data = bytes(200_000)
            writer.write(data)
            writer.close()
            await asyncio.wait_for(collector.ended.wait(), 5)
            assert collector.events[-1] == "end"
            assert b"".join(one for one in collector.events if isinstance(one, bytes)) == data
            server.close()

    play(scenario)


def test_invalid_host_name_is_a_failed_handshake(play: Play) -> None:
    async def scenario() -> None:
        async with stage_of() as stage:
            with pytest.raises((HandshakeFailed, Unreachable)):
                await stage.peer(peer_security(), host="local" + "x" * 70 + ".invalid").connect()

    play(scenario)
