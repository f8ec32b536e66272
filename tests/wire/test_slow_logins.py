"""Clients that send their handshake or login one byte at a time, and clients that want to repeat their handshake."""

import contextlib
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from kio.schema.errors import ErrorCode

from odradek.server.connection_authentication import AUTHENTICATION_SECONDS_MAX
from odradek.server.tls_connection import HANDSHAKE_SECONDS_MAX
from tests import components
from tests.apis import Api
from tests.raw_wire import RawConnection, encode_request
from tests.wire.hostile_node import HostileNode, bystander, hostile_node
from tests.wire.sasl_model import AUTHENTICATE, HANDSHAKE
from tests.wire.secured_broker import PASSWORD
from tests.wire.test_half_open_connections import client_hello

CLIENTS = 60
KEY_UPDATES = 100
MEMORY_GROWTH_MAX = 32 << 20
LOGIN = encode_request(HANDSHAKE, 1, 1, {"mechanism": "PLAIN"}) + encode_request(
    AUTHENTICATE, 2, 2, {"auth_bytes": f"\0alice\0{PASSWORD}".encode()}
)
# Of a busy computer.
LATE_S = 15.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    with hostile_node(tmp_path_factory.mktemp("slow")) as node:
        yield node
        node.assert_nothing_leaked()


def secured(node: HostileNode) -> RawConnection:
    connection = RawConnection(node.secured_port)
    context = ssl.create_default_context(cafile=node.directory / "ca.pem")
    connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
    return connection


def plain(node: HostileNode) -> RawConnection:
    return RawConnection(node.sasl_port)


@pytest.mark.parametrize("connect", [plain, secured])
def test_login_in_single_bytes_succeeds(node: HostileNode, connect: Callable[[HostileNode], RawConnection]) -> None:
    with contextlib.ExitStack() as stack, bystander(node):
        clients = [stack.enter_context(connect(node)) for _ in range(CLIENTS)]
        for position in range(len(LOGIN)):
            for client in clients:
                client.send_bytes(LOGIN[position : position + 1])
        for client in clients:
            client.receive()
            client.receive()
            assert client.request(Api.METADATA, 1, {"topics": []}).brokers


@pytest.mark.tier("proof")
@pytest.mark.timeout(180)
def test_slow_clients_are_disconnected_at_their_deadline(node: HostileNode) -> None:
    """They send one byte twice a second, and would never finish."""
    endless = struct.pack(">i", 16_000) + bytes(1000)
    tls = HANDSHAKE_SECONDS_MAX + LATE_S
    sasl = AUTHENTICATION_SECONDS_MAX + LATE_S
    kinds: Sequence[tuple[Callable[[], RawConnection], bytes, bytes, float]] = (
        (lambda: RawConnection(node.mutual_port), b"", client_hello(), tls),
        (lambda: RawConnection(node.mutual_port), client_hello(), b"\x16\x03\x03\x10\x00" + bytes(1000), tls),
        (lambda: RawConnection(node.secured_port), b"", client_hello(), tls),
        (lambda: plain(node), b"", endless, sasl),
        (lambda: plain(node), encode_request(Api.API_VERSIONS, 0, 1, {}), endless, sasl),
        (lambda: plain(node), encode_request(HANDSHAKE, 1, 1, {"mechanism": "SCRAM-SHA-256"}), endless, sasl),
        (lambda: plain(node), encode_request(HANDSHAKE, 0, 1, {"mechanism": "OAUTHBEARER"}), endless, sasl),
        (lambda: secured(node), b"", endless, sasl + HANDSHAKE_SECONDS_MAX),
    )
    before = node.resident_bytes
    with contextlib.ExitStack() as stack, bystander(node):
        begun = time.monotonic()
        open_clients = []
        for connect, first, rest, seconds_max in kinds:
            for _ in range(CLIENTS // 2):
                client = stack.enter_context(connect())
                client.send_bytes(first)
                open_clients.append((client.socket, rest, seconds_max))
        position = 0
        while open_clients:
            elapsed = time.monotonic() - begun
            assert elapsed < max(one[2] for one in open_clients)
            assert not [one for one in open_clients if elapsed > one[2]], f"open after {elapsed:.0f} s"
            open_clients = [one for one in open_clients if sends_byte(one[0], one[1], position)]
            position += 1
            select.select([], [], [], 0.5)
        assert node.resident_bytes - before < MEMORY_GROWTH_MAX


def sends_byte(client: socket.socket, data: bytes, position: int) -> bool:
    """False: the node has closed the connection. What it sends is read, and ignored."""
    client.setblocking(False)
    try:
        while client.recv(4096):
            pass
        return False
    except (BlockingIOError, ssl.SSLWantReadError):
        pass
    except OSError:
        return False
    try:
        client.send(data[position : position + 1])
    except (ConnectionError, ssl.SSLError):
        return False
    return True


class OpensslClient:
    """`openssl s_client`, whose commands are single letters."""

    def __init__(self, port: int, version: str) -> None:
        openssl = components.require("openssl", lambda: components.find_program("openssl"))
        self.process = subprocess.Popen(
            [openssl, "s_client", "-connect", f"127.0.0.1:{port}", version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.output = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while part := os.read(self.process.stdout.fileno(), 4096):
            self.output += part

    def wait_for(self, text: bytes, times: int = 1) -> None:
        deadline = time.monotonic() + 20
        while self.output.count(text) < times:
            assert time.monotonic() < deadline, self.output
            assert self._reader.is_alive(), self.output
            time.sleep(0.001)

    def command(self, letter: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(letter + b"\n")
        self.process.stdin.flush()

    def wait(self) -> bytes:
        self.process.wait(20)
        self._reader.join(20)
        return self.output

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_handshake_is_never_repeated(node: HostileNode) -> None:
    """Renegotiation in TLS 1.2 costs a server much more than its client."""
    client = OpensslClient(node.secured_port, "-tls1_2")
    try:
        client.wait_for(b"Verify return code")
        client.command(b"R")
        output = client.wait()
    finally:
        client.close()
    assert b"RENEGOTIATING" in output
    assert b"no renegotiation" in output
    assert output.count(b"BEGIN CERTIFICATE") == 1


def test_key_updates_delay_no_client(node: HostileNode) -> None:
    """In TLS 1.3, a client may ask for new keys at any time."""
    client = OpensslClient(node.secured_port, "-tls1_3")
    try:
        client.wait_for(b"Verify return code")
        with bystander(node):
            for number in range(1, KEY_UPDATES + 1):
                # It takes one command per line that it reads at once.
                client.command(b"K")
                client.wait_for(b"KEYUPDATE", number)
    finally:
        client.close()
    with secured(node) as connection:
        assert connection.request(Api.API_VERSIONS, 0).error_code is ErrorCode.none
