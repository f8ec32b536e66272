"""Connections that stay in their TLS handshake: what they cost, and that they count and end like any other."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.certificates import Authority
from tests.node_process import KEEPS_OLD_RECORDS, free_ports
from tests.odradek_process import OdradekProcess

CONNECTIONS = 1500
BYTES_MAX = 100 << 10
"""Per connection. 160 KB are allowed."""
CONNECTIONS_MAX = 1600


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OdradekProcess, int]]:
    directory = tmp_path_factory.mktemp("half-open")
    key_store = Authority().issue(uses_rsa=True).save(directory / "node.pem")
    (port,) = free_ports(1)
    process = OdradekProcess(directory / "node")
    process.properties = {
        **KEEPS_OLD_RECORDS,
        "listeners": f"PLAINTEXT://127.0.0.1:{process.port},SSL://127.0.0.1:{port},"
        f"CONTROLLER://127.0.0.1:{process.controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "socket.listen.backlog.size": "2000",
        "max.connections": str(CONNECTIONS_MAX),
    }
    try:
        yield process.start(), port
    finally:
        process.remove()


def client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("kind", ["silent", "incomplete", "complete"])
def test_memory_of_half_open_connections(node: tuple[OdradekProcess, int], kind: str) -> None:
    process, port = node
    sent = {"silent": b"", "incomplete": client_hello()[:200], "complete": client_hello()}[kind]
    before = process.resident_bytes
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)]
        for one in opened:
            one.sendall(sent)
        if kind == "complete":
            for one in opened:
                one.settimeout(10)
                assert one.recv(1)
        else:
            time.sleep(1)
        each = (process.resident_bytes - before) / CONNECTIONS
    assert each < BYTES_MAX, f"{each:.0f} bytes per connection"


def test_half_open_connections_count_towards_max_connections(node: tuple[OdradekProcess, int]) -> None:
    _, port = node
    with socket.socket() as late:
        with contextlib.ExitStack() as stack:
            for _ in range(CONNECTIONS_MAX):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            time.sleep(0.5)
            late.connect(("127.0.0.1", port))
            late.sendall(client_hello())
            late.settimeout(0.5)
            with pytest.raises(TimeoutError):
                late.recv(1)
        # Now there is room.
        late.settimeout(10)
        assert late.recv(1)
