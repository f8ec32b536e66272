"""Hostile TLS handshakes, from a seed: damaged flights of real clients, and damaged client certificates."""

import contextlib
import random
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Issued
from tests.raw_wire import ConnectionClosed, RawConnection, encode_request
from tests.wire.fuzzing import damage

PATIENCE_S = 0.05
VALID_PATIENCE_S = 20.0
_FLIGHTS_MAX = 3
_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
_REQUEST = encode_request(18, 0, 7, {})
_HANDSHAKE, _CHANGE_CIPHER_SPEC = 22, 20


class TlsOutcome(NamedTuple):
    kind: str
    flights: list[tuple[bytes, bytes]]
    """What the client wrote, and what was sent instead."""
    is_served: bool
    is_closed: bool


class HostileTls:
    """One worker's handshakes with a client certificate. The same seed makes the same changes."""

    def __init__(self, seed: int, issued: Issued) -> None:
        self._chance = random.Random(seed)
        self._issued = issued
        self._contexts = [_context(version, issued.pem) for version in _VERSIONS]
        self._corpus = [_first_flight(context) for context in self._contexts]

    def play(self, connection: RawConnection) -> TlsOutcome:
        (kind,) = self._chance.choices(("flight", "certificate", "valid"), (85, 13, 2))
        context = self._chance.choice(self._contexts)
        if kind == "certificate":
            context = self._with_damaged_certificate() or context
        patience_s = PATIENCE_S if kind == "flight" else VALID_PATIENCE_S
        connection.socket.settimeout(patience_s)
        damaged = self._chance.randrange(_FLIGHTS_MAX) if kind == "flight" else None
        flights: list[tuple[bytes, bytes]] = []
        is_served = is_closed = False
        try:
            is_served = self._shake_hands(connection, context, damaged, flights)
            is_closed = not is_served
        except (ConnectionClosed, ConnectionResetError):
            is_closed = True
        except TimeoutError:
            pass
        is_original = context in self._contexts
        return TlsOutcome("valid" if kind == "certificate" and is_original else kind, flights, is_served, is_closed)

    def _shake_hands(
        self,
        connection: RawConnection,
        context: ssl.SSLContext,
        damaged: int | None,
        flights: list[tuple[bytes, bytes]],
    ) -> bool:
        """Whether the node responds to a request after the handshake. False: it has closed the connection."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing)
        is_secured = False
        while True:
            try:
                if not is_secured:
                    tls.do_handshake()
                    is_secured = True
                    tls.write(_REQUEST)
                return bool(tls.read(4))
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
            if flight := outgoing.read():
                sent = self._changed(flight) if damaged == len(flights) else flight
                flights.append((flight, sent))
                connection.send_bytes(sent)
            received = connection.socket.recv(1 << 16)
            if not received:
                return False
            incoming.write(received)

    def _changed(self, flight: bytes) -> bytes:
        data = bytearray(flight)
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            damage(self._chance, data, self._corpus)
        return bytes(data)

    def _with_damaged_certificate(self) -> ssl.SSLContext | None:
        """With the right key. None: OpenSSL itself does not accept the damaged certificate."""
        data = bytearray(self._issued.der)
        data[self._chance.randrange(len(data))] ^= 1 << self._chance.randrange(8)
        pem = ssl.DER_cert_to_PEM_cert(bytes(data)).encode()
        with contextlib.suppress(ssl.SSLError):
            return _context(self._chance.choice(_VERSIONS), self._issued.key + pem)
        return None


def check(outcome: TlsOutcome) -> None:
    """A handshake that the node completes has undamaged messages, and a valid one is completed."""
    if outcome.is_served:
        assert outcome.kind != "certificate", "a damaged certificate was accepted"
        for written, sent in outcome.flights:
            assert _starts_with(_messages(sent), _messages(written)), (
                f"accepted {sent.hex()} instead of {written.hex()}"
            )
    assert outcome.is_served or outcome.kind != "valid", f"a valid handshake failed: {outcome}"


def _starts_with(sent: Sequence[tuple[int, bytes]], written: Sequence[tuple[int, bytes]]) -> bool:
    return list(sent[: len(written)]) == list(written)


def _messages(flight: bytes) -> list[tuple[int, bytes]]:
    """Type and content of the records. Where the content is divided into records does not matter before encryption,
    nor does ChangeCipherSpec in TLS 1.3."""
    found: list[tuple[int, bytes]] = []
    position = 0
    while position + 5 <= len(flight):
        kind, size = flight[position], int.from_bytes(flight[position + 3 : position + 5], "big")
        content = flight[position + 5 : position + 5 + size]
        if kind == _HANDSHAKE and found and found[-1][0] == _HANDSHAKE:
            found[-1] = (kind, found[-1][1] + content)
        elif kind != _CHANGE_CIPHER_SPEC:
            found.append((kind, content))
        position += 5 + size
    return found


def _context(version: ssl.TLSVersion, pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pem)
        context.load_cert_chain(file.name)
    return context


def _first_flight(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
