"""One Apache Kafka broker and one Odradek broker with a TLS listener each, and the settings of their clients."""

import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.loads import Work
from bench.products import KAFKA, ODRADEK, data_directory
from tests.certificates import Authority
from tests.kafka.apache_kafka import PRODUCTION_BROKER_FLAGS, ApacheKafka
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess

HANDSHAKE_THREADS: Final = 4
TIMEOUT_SECONDS: Final = 30.0


class TlsSide:
    """A running broker. Administration uses its PLAINTEXT listener, so that TLS costs only what is measured."""

    def __init__(self, key: str, node: NodeProcess, port: int, authorities: Path) -> None:
        self.key = key
        self.nodes: Sequence[NodeProcess] = (node,)
        self.bootstrap: Final = node.bootstrap
        self.port: Final = port
        self.tls_bootstrap: Final = f"127.0.0.1:{port}"
        self.client_properties: Final = (
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authorities}",
        )
        self._authorities: Final = authorities

    def cipher(self) -> str:
        """Protocol and cipher of a connection with default settings."""
        with _connect(_context(self._authorities), self.port) as connection:
            name, protocol, _ = connection.cipher() or ("", "", 0)
            return f"{protocol} {name}"

    def shake_hands(self, count: int) -> Work:
        """Full handshakes, without resumption, on several connections at a time."""
        context = _context(self._authorities)

        def connect(connections: int) -> None:
            for _ in range(connections):
                with _connect(context, self.port):
                    pass

        began = time.perf_counter()
        with ThreadPoolExecutor(HANDSHAKE_THREADS) as threads:
            list(threads.map(connect, [count // HANDSHAKE_THREADS] * HANDSHAKE_THREADS))
        done = count // HANDSHAKE_THREADS * HANDSHAKE_THREADS
        return Work(done / (time.perf_counter() - began), done)


def _context(authorities: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authorities))


def _connect(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
    # With the first byte after the handshake, a server of TLS 1.3 has accepted it: the ApiVersions response below.
    connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
    connection.sendall(_API_VERSIONS)
    connection.recv(4)
    return connection


# ApiVersions version 0, correlation ID 1, no client ID.
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


@contextmanager
def tls_side(key: str, libs: Path) -> Iterator[TlsSide]:
    with data_directory(key) as directory:
        authority = Authority()
        authorities = directory / "ca.pem"
        authorities.write_bytes(authority.pem)
        key_store = authority.issue().save(directory / "node.pem")
        data = directory / "node"
        node: NodeProcess
        if key == KAFKA:
            node = ApacheKafka(libs, data, flags=PRODUCTION_BROKER_FLAGS)
        else:
            assert key == ODRADEK
            node = OdradekProcess(data)
        (port,) = free_ports(1)
        listeners = {"PLAINTEXT": node.port, "SSL": port, "CONTROLLER": node.controller_port}
        node.properties |= {
            "listeners": ",".join(f"{name}://127.0.0.1:{number}" for name, number in listeners.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key_store),
            "log.segment.delete.delay.ms": "500",
        }
        try:
            node.start()
            yield TlsSide(key, node, port, authorities)
        finally:
            node.remove()
