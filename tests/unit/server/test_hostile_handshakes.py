"""Mutated handshakes end in an alert or a closed connection, never in an error of the node."""

import asyncio
import contextlib
import random
import ssl
from typing import Any

import pytest

from odradek.host.executor import ThreadExecutor
from odradek.node.pool_sizes import Pool
from odradek.server.tls_connection import Handshakes, ServerTls
from tests.unit.server.test_tls_connection import peer_security, server_context

CASES = 400


class Wire(asyncio.Transport):
    """Collects what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class Application(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        return False


class Client:
    """The client's side in memory, whose flights a test may change."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def next_flight(self) -> bytes:
        with contextlib.suppress(ssl.SSLError):
            self.tls.do_handshake()
            self.tls.write(b"hello")
        return self.outgoing.read()


def mutate(rng: random.Random, flight: bytes) -> bytes:
    data = bytearray(flight)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at] = rng.choice((0, 0xFF, 0x7F, rng.randrange(256)))
            case 2:
                del data[at : at + rng.randrange(1, 50)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 50))
            case _:
                data += data[: rng.randrange(1, 200)]
    return bytes(data)


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_mutated_handshakes(client_auth: str) -> None:
    rng = random.Random(client_auth)
    server = server_context(client_auth=client_auth)
    security = peer_security(None)
    assert security.tls is not None
    new_client = security.tls

    async def play() -> int:
        handshakes = Handshakes(ThreadExecutor(dict.fromkeys(Pool, 1)), lambda: 0.0)
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        ended = 0
        for _ in range(CASES):
            wire, application = Wire(), Application()
            tls = ServerTls(application, lambda: server, handshakes, on_secured=lambda _: None, listener_name="HOSTILE")
            tls.connection_made(wire)
            client = Client(new_client())
            mutated_flight = rng.randrange(2)
            for flight in range(2):
                data = client.next_flight()
                _give(tls, mutate(rng, data) if flight == mutated_flight else data, rng)
                client.incoming.write(bytes(wire.written))
                wire.written.clear()
                if wire.is_closed:
                    break
            ended += wire.is_closed
            handshakes._window_began_at = -1.0
            tls.connection_lost(None)
        await asyncio.sleep(0)
        assert errors == []
        return ended

    assert asyncio.run(play()) > CASES / 4


def _give(tls: ServerTls, data: bytes, rng: random.Random) -> None:
    """In pieces, as a socket would."""
    while data:
        size = min(rng.choice((1, 7, 100, 5000)), len(data))
        tls.get_buffer(-1)[:size] = data[:size]
        tls.buffer_updated(size)
        data = data[size:]
