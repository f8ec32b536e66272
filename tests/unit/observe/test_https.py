"""The HTTP endpoint with TLS, on sockets."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from odradek.base.principal import Principal
from odradek.config.listeners import Address
from odradek.host.clock import SystemClock
from odradek.observe.endpoint import CONNECTIONS_MAX, HttpEndpoint, HttpTls
from odradek.observe.http_access import HttpSecurity
from odradek.server.security import AuthenticationFailure
from odradek.server.tls_connection import Handshakes
from tests.certificates import Authority
from tests.unit.observe.test_endpoint import Inline

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


class Node:
    def why_failed(self) -> str | None:
        return None


class Stage:
    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        self.directory = directory
        self.context = self.issue("first")
        self.failures: list[AuthenticationFailure] = []
        executor: Any = Inline()
        node: Any = Node()
        security = HttpSecurity(has_authorizer=False)
        security.authenticate = lambda user, password: Principal("User", user) if password == "right" else None
        self.endpoint = HttpEndpoint(node, executor, security)
        handshakes = Handshakes(executor, SystemClock().monotonic)
        self.tls = HttpTls(lambda: self.context, handshakes, self.failures.append)
        self.trusted = ssl.create_default_context(cadata=self.authority.pem.decode())

    def issue(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority.issue(name).save(self.directory / f"{name}.pem"))
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.endpoint.port, ssl=self.trusted, server_hostname="localhost"
        )

    async def exchange(self, request: bytes) -> bytes:
        """The response, up to the end of the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        response = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return response


def run(stage: Stage, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def serve() -> None:
        await stage.endpoint.start(Address("127.0.0.1", 0), stage.tls)
        try:
            await scenario()
        finally:
            await stage.endpoint.stop()

    asyncio.run(serve())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def closing(request: bytes) -> bytes:
    return request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)


def test_requests_on_one_connection(stage: Stage) -> None:
    async def scenario() -> None:
        response = await stage.exchange(HEALTH * 3 + closing(HEALTH))
        assert response.count(b"HTTP/1.1 200") == 4

    run(stage, scenario)


def test_large_responses_are_complete(stage: Stage) -> None:
    async def large(_: object) -> Any:
        return {"large": "x" * 3_000_000}

    stage.endpoint.publish("large", large)

    async def scenario() -> None:
        response = await stage.exchange(closing(b"GET /v1/large HTTP/1.1\r\nHost: a\r\n\r\n"))
        assert response.partition(b"\r\n\r\n")[2].count(b"x") == 3_000_000

    run(stage, scenario)


def test_new_connections_get_a_renewed_certificate(stage: Stage) -> None:
    async def subject() -> str:
        _, writer = await stage.connect()
        found = writer.get_extra_info("peercert")["subject"]
        writer.close()
        return str(found)

    async def scenario() -> None:
        assert "first" in await subject()
        stage.context = stage.issue("second")
        assert "second" in await subject()

    run(stage, scenario)


def test_plaintext_is_rejected_and_reported(stage: Stage) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.endpoint.port)
        writer.write(HEALTH)
        try:
            response = await asyncio.wait_for(reader.read(), 20)
        except ConnectionResetError:
            response = b""
        assert b"HTTP" not in response
        (failure,) = stage.failures
        assert (failure.listener_name, failure.mechanism) == ("HTTP", "SSL")
        assert failure.peer.startswith("127.0.0.1:")
        # The endpoint keeps working.
        assert b"200" in await stage.exchange(closing(HEALTH))

    run(stage, scenario)


def test_clients_without_a_handshake_do_not_block_others(stage: Stage) -> None:
    async def scenario() -> None:
        silent = [await asyncio.open_connection("127.0.0.1", stage.endpoint.port) for _ in range(CONNECTIONS_MAX + 10)]
        assert b"200" in await stage.exchange(closing(HEALTH))
        for _, writer in silent:
            writer.close()

    run(stage, scenario)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
        b"GET /healthz\r\nX-Forged: 1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /v1/%0d%0aSet-Cookie:a=b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET //healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz/../metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://other/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\x00healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\x00\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic " + b"A" * 20_000 + b"\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_header_and_path_injection_is_harmless(stage: Stage, request_bytes: bytes) -> None:
    async def scenario() -> None:
        response = await stage.exchange(closing(request_bytes))
        head, _, body = response.partition(b"\r\n\r\n")
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
        assert set(names) <= {b"content-type", b"content-length", b"connection", b"date", b"allow", b"www-authenticate"}
        assert b"root:" not in body and b"kafka_" not in body
        assert b"200" in await stage.exchange(closing(HEALTH))

    run(stage, scenario)
