"""Hostile SASL exchanges, from a seed: valid ones with damaged frames, messages, fields, order, or from a recording."""

import base64
import random
import socket
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from kio.serial.errors import SerialError

from tests.apis import Api
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response, encode_request, framed
from tests.wire.fuzzing import Mutator, damage
from tests.wire.sasl_model import (
    AUTHENTICATE,
    DIGESTS,
    HANDSHAKE,
    Credentials,
    client_proof,
    fields_of,
    proves_identity,
)

MECHANISMS = ("PLAIN", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512")
KINDS = ("frame", "message", "field", "order", "replay", "valid")
_WEIGHTS = (30, 25, 30, 8, 5, 2)
# Long enough for most responses. A frame that announces more bytes than follow gets none.
PATIENCE_S = 0.05
VALID_PATIENCE_S = 20.0
_PROBE_ID = 0x5EED1883
_PROBE = encode_request(Api.METADATA, 1, _PROBE_ID, {"topics": []})
_RECORDED_MAX = 100

Messages = Generator[bytes, bytes, None]


class Outcome(NamedTuple):
    kind: str
    mechanism: str
    sent: bytes
    challenges: list[bytes]
    is_served: bool
    """Whether the node served a request that needs authentication."""
    is_closed: bool


class Recorded(NamedTuple):
    mechanism: str
    messages: tuple[bytes, bytes]


class HostileSasl:
    """One worker's exchanges. The same seed makes the same changes."""

    def __init__(self, seed: int, credentials: Credentials, mechanisms: Sequence[str] = MECHANISMS) -> None:
        self._chance = random.Random(seed)
        self._mechanisms = mechanisms
        self._credentials = credentials
        self._requests = Mutator(seed)
        self._recorded: list[Recorded] = []
        self._foreign_key = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})
        self._corpus = [
            b"\0alice\0password",
            b"n,,n=alice,r=nonce,tokenauth=true",
            b"c=biws,r=nonce,p=cHJvb2Y=",
            b"n,,\x01auth=Bearer a.b.c\x01\x01",
        ]

    def requests(self, connection: RawConnection) -> Outcome:
        """Damaged requests of every API on a connection that has not authenticated."""
        sent = b"".join(self._requests.next_frame() for _ in range(self._chance.randint(1, 4)))
        return self._end(connection, Exchange("requests", "", bytearray(sent)), PATIENCE_S, unsent=sent)

    def play(self, connection: RawConnection) -> Outcome:
        chance = self._chance
        (kind,) = chance.choices(KINDS, _WEIGHTS)
        mechanism = chance.choice(self._mechanisms)
        recorded = self._find_recorded(mechanism) if kind == "replay" else None
        if kind == "replay" and recorded is None:
            kind = "field"
        exchange = Exchange(kind, mechanism, bytearray())
        version = chance.choice((None, 0, 1, 2))
        patience_s = VALID_PATIENCE_S if kind == "valid" else PATIENCE_S
        messages = self._messages(mechanism, kind, recorded)
        damaged = chance.randrange(4)
        frames = [encode_request(Api.API_VERSIONS, 0, 1, {})] if chance.random() < 0.2 else []
        name = mechanism if kind != "order" or chance.random() < 0.6 else chance.choice(MECHANISMS)
        frames.append(encode_request(HANDSHAKE, 0 if version is None else 1, 2, {"mechanism": name}))
        if kind == "order":
            chance.shuffle(frames)
            frames = chance.choices(frames, k=chance.randint(0, 3))
        try:
            for number, frame in enumerate(frames):
                self._send(connection, exchange, frame, patience_s, number == damaged)
                exchange.receive(connection, None)
            self._authenticate(connection, exchange, messages, version, patience_s, damaged - len(frames))
        except (ConnectionClosed, TimeoutError):
            pass
        return self._end(connection, exchange, patience_s)

    def _authenticate(
        self,
        connection: RawConnection,
        exchange: "Exchange",
        messages: Messages,
        version: int | None,
        patience_s: float,
        damaged: int,
    ) -> None:
        sent: list[bytes] = []
        message: bytes | None = next(messages)
        while message is not None:
            if exchange.kind == "message" and self._chance.random() < 0.6:
                changed = bytearray(message)
                damage(self._chance, changed, self._corpus)
                message = bytes(changed)
            sent.append(message)
            frame = (
                framed(message)
                if version is None
                else encode_request(AUTHENTICATE, version, 3 + len(sent), {"auth_bytes": message})
            )
            for _ in range(2 if exchange.kind == "order" and self._chance.random() < 0.3 else 1):
                self._send(connection, exchange, frame, patience_s, damaged == len(sent) - 1)
            challenge = exchange.receive(connection, version)
            try:
                message = messages.send(challenge)
            except StopIteration:
                message = None
        if exchange.kind == "valid" and len(sent) == 2:
            self._record(Recorded(exchange.mechanism, (sent[0], sent[1])))

    def _send(
        self, connection: RawConnection, exchange: "Exchange", frame: bytes, patience_s: float, is_damaged: bool
    ) -> None:
        if exchange.kind == "frame" and is_damaged:
            changed = bytearray(frame[4:])
            for _ in range(self._chance.randint(1, 2)):
                damage(self._chance, changed, self._corpus)
            length = self._chance.choice((0, -1, 20_000, 600_000, 2**31 - 1)) if self._chance.random() < 0.02 else None
            frame = struct.pack(">i", len(changed) if length is None else length) + changed
        exchange.sent += frame
        connection.socket.settimeout(patience_s)
        connection.send_bytes(frame)

    def _end(
        self, connection: RawConnection, exchange: "Exchange", patience_s: float, *, unsent: bytes = b""
    ) -> Outcome:
        """Requests something that needs authentication, and waits for the response or the end of the connection."""
        is_served = is_closed = False
        try:
            connection.socket.settimeout(patience_s)
            connection.send_bytes(unsent + _PROBE)
            while not is_served:
                is_served = connection.receive()[:4] == _PROBE_ID.to_bytes(4, "big")
        except ConnectionClosed:
            is_closed = True
        except TimeoutError:
            pass
        return Outcome(
            exchange.kind, exchange.mechanism, bytes(exchange.sent), exchange.challenges, is_served, is_closed
        )

    # The messages of a mechanism

    def _messages(self, mechanism: str, kind: str, recorded: Recorded | None) -> Messages:
        if recorded is not None:
            return _replayed(recorded)
        change = self._chance if kind == "field" else None
        if mechanism == "PLAIN":
            return self._plain(change)
        return self._token(change) if mechanism == "OAUTHBEARER" else self._scram(mechanism, change)

    def _plain(self, chance: random.Random | None) -> Messages:
        name, password = self._chance.choice(list(self._credentials.passwords.items()))
        authorization_id = self._chance.choice(("", name))
        if chance is not None:
            other = chance.choice([one for one in self._credentials.passwords if one != name])
            authorization_id, name, password = chance.choice(
                [
                    ("", other, password),
                    (other, name, password),
                    ("", name.upper(), password),
                    ("", name, password + " "),
                    ("", name, password[:-1]),
                    ("", name, password + "\0"),
                    ("", name, ""),
                    ("", "", password),
                    ("\0", name, password),
                    (f"{name}\0", name, password),
                    ("", name, password.swapcase()),
                    ("", f"{name}\n", password),
                ]
            )
        yield f"{authorization_id}\0{name}\0{password}".encode()

    def _token(self, chance: random.Random | None) -> Messages:
        token = self._chance.choice(list(self._credentials.signed_tokens))
        header, extension = "n,,", ""
        if chance is not None:
            change = chance.randrange(3)
            if change == 0:
                header = chance.choice(("n,a=bob,", "y,,", "p=tls-unique,,", "n,a=alice\nbob,", ",,"))
            elif change == 1:
                token = self._forged(chance, token)
            else:
                extension = f"auth=Bearer {self._forged(chance, token)}\x01"
        if (yield f"{header}\x01auth=Bearer {token}\x01{extension}\x01".encode()):
            # The token was rejected.
            yield b"\x01"

    def _forged(self, chance: random.Random, token: str) -> str:
        head, claims, signature = token.split(".")
        values = {"iss": "https://issuer.example", "aud": "kafka", "sub": "alice", "iat": 0, "exp": 2_000_000_000_000}
        secret = OctKey.import_key("a secret that only this client knows")
        unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        changes: Sequence[Callable[[], str]] = (
            lambda: f"{unsigned}.{claims}.",
            lambda: f"{unsigned}.{claims}.{signature}",
            lambda: f"{head}.{claims}.",
            lambda: f"{head}.{claims[:-2]}.{signature}",
            lambda: f"{claims}.{head}.{signature}",
            lambda: jwt.encode({"alg": "ES256", "kid": "one"}, values, self._foreign_key),
            lambda: jwt.encode({"alg": "ES256", "kid": "../../etc/passwd"}, values, self._foreign_key),
            lambda: jwt.encode({"alg": "HS256", "kid": "one"}, values, secret),
        )
        return chance.choice(changes)()

    def _scram(self, mechanism: str, chance: random.Random | None) -> Messages:
        tokens = self._credentials.delegation_tokens
        is_token = bool(tokens) and self._chance.random() < 0.3
        secrets = tokens if is_token else self._credentials.scram_passwords
        name, secret = self._chance.choice(list(secrets.items()))
        nonce = f"{self._chance.getrandbits(96):x}"
        extension = ",tokenauth=true" if is_token else ""
        header = self._chance.choice(("n,,", f"n,a={name},"))
        if chance is not None and chance.random() < 0.5:
            header, extension, name = chance.choice(
                [
                    ("y,,", extension, name),
                    ("p=tls-unique,,", extension, name),
                    ("p=tls-exporter,,", extension, name),
                    ("n,a=bob,", extension, name),
                    ("n,,", "" if is_token else ",tokenauth=true", name),
                    ("n,,", extension, "nobody"),
                    ("n,,m=unknown", extension, name),
                    ("n,,", extension + ",tokenauth=false", name),
                ]
            )
            chance = None
        first_bare = f"n={name},r={nonce}{extension}"
        challenge = (yield f"{header}{first_bare}".encode()).decode(errors="replace")
        found = fields_of(challenge)
        if not {"r", "s", "i"} <= found.keys():
            return
        binding, server_nonce = base64.b64encode(header.encode()).decode(), found["r"]
        if chance is not None:
            binding, server_nonce = self._changed_final(chance, header, binding, nonce, server_nonce)
            secret = chance.choice((secret, secret, secret + "x"))
        final_bare = f"c={binding},r={server_nonce}"
        proof = client_proof(mechanism, secret, first_bare, challenge, final_bare)
        if chance is not None:
            proof = chance.choice((proof, proof, "", base64.b64encode(bytes(32)).decode(), proof[4:]))
        yield f"{final_bare},p={proof}".encode()

    @staticmethod
    def _changed_final(
        chance: random.Random, header: str, binding: str, nonce: str, server_nonce: str
    ) -> tuple[str, str]:
        return chance.choice(
            [
                (binding, nonce),
                (binding, server_nonce[len(nonce) :]),
                (binding, server_nonce + "x"),
                (binding, server_nonce[:-1]),
                (binding, server_nonce.swapcase()),
                (binding, nonce + nonce),
                (base64.b64encode(b"y,,").decode(), server_nonce),
                (base64.b64encode(b"p=tls-unique,,binding").decode(), server_nonce),
                (base64.b64encode(header.encode() + b"\0").decode(), server_nonce),
                ("", server_nonce),
            ]
        )

    # Recordings

    def _record(self, recorded: Recorded) -> None:
        self._recorded.append(recorded)
        del self._recorded[:-_RECORDED_MAX]

    def _find_recorded(self, mechanism: str) -> Recorded | None:
        found = [one for one in self._recorded if one.mechanism == mechanism and mechanism in DIGESTS]
        return self._chance.choice(found) if found else None


def _replayed(recorded: Recorded) -> Messages:
    first, final = recorded.messages
    yield first
    yield final


class Exchange:
    def __init__(self, kind: str, mechanism: str, sent: bytearray) -> None:
        self.kind, self.mechanism = kind, mechanism
        self.sent = sent
        self.challenges: list[bytes] = []

    def receive(self, connection: RawConnection, version: int | None) -> bytes:
        """The response; of an authentication, the message in it."""
        payload = connection.receive()
        message = payload
        if version is not None:
            try:
                message = decode_response(AUTHENTICATE, version, payload).auth_bytes
            except (AssertionError, ValueError, IndexError, struct.error, SerialError):
                # The response to a request of another version, into which damage turned this one.
                return b""
        self.challenges.append(bytes(message))
        return bytes(message)


def check(outcome: Outcome, credentials: Credentials) -> None:
    """An exchange that the node accepts must prove an identity, and a valid one must be accepted."""
    if outcome.is_served:
        proven = proves_identity(outcome.sent, outcome.challenges, credentials)
        assert proven, f"served without a proof of identity: {_shown(outcome)}"
    assert outcome.is_served or outcome.kind != "valid", f"a valid login failed: {_shown(outcome)}"


def _shown(outcome: Outcome) -> dict[str, Any]:
    return outcome._asdict()


def reset(connection: socket.socket) -> None:
    """Closes with a reset: thousands of closed connections would exhaust the ports of the computer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
