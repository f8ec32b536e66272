"""A listener with two users, and the frames of its clients."""

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.base.ports import Pool
from odradek.base.principal import Principal
from odradek.instruments.authentication import AuthenticationCounts
from odradek.server.security import AuthenticationFailure, SaslServerExchange
from odradek.wire.headers import skip_tagged_fields
from odradek.wire.sasl.plain import PlainServer, PlainUsers
from odradek.wire.schemas import schema

T = TypeVar("T")
HANDSHAKE, AUTHENTICATE, API_VERSIONS, METADATA = 17, 36, 18, 3


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class TokenServer(PlainServer):
    """A mechanism whose credential expires, and whose exchange blocks."""

    expires_at_ms: int | None = None  # type: ignore[assignment]

    def __init__(self, expires_at_ms: int) -> None:
        super().__init__(lambda name, password: password == "token")
        self.expires_at_ms = expires_at_ms

    def blocks(self, response: bytes) -> bool:
        return True


class OwnThread:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


class StageSasl:
    mechanisms = ("PLAIN", "TOKEN")
    receive_bytes_max = 524_288
    failure_delay_seconds = 0.1

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.executor = OwnThread()
        self.counts = AuthenticationCounts()
        self.failures: list[AuthenticationFailure] = []
        self.reauthentication_ms = 0
        self.token_expires_at_ms = 0
        self._users = PlainUsers({"alice": "secret", "bob": "secret"}, b"key")

    def start(self, mechanism: str) -> SaslServerExchange:
        if mechanism == "PLAIN":
            return PlainServer(self._users.verify)
        return TokenServer(self.token_expires_at_ms)

    def reauthentication_ms_max(self, mechanism: str) -> int:
        return self.reauthentication_ms

    def on_failure(self, failure: AuthenticationFailure) -> None:
        self.failures.append(failure)


def frame(api_key: int, version: int, correlation_id: int, class_name: str, **values: object) -> bytearray:
    chosen = schema(api_key, version)
    body = chosen.write(chosen.new_in_request(class_name, **values))
    head = api_key.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4) + b"\0\x01c"
    return bytearray(head + (b"\0" if chosen.flexible else b"") + body)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytearray:
    return frame(HANDSHAKE, version, 1, "SaslHandshakeRequest", mechanism=mechanism)


def authenticate(message: bytes, version: int = 2) -> bytearray:
    return frame(AUTHENTICATE, version, 2, "SaslAuthenticateRequest", auth_bytes=message)


def versions() -> bytearray:
    return frame(API_VERSIONS, 3, 3, "ApiVersionsRequest", client_software_name="test", client_software_version="1")


def metadata() -> bytearray:
    return frame(METADATA, 1, 4, "MetadataRequest", topics=None)


def read(api_key: int, version: int, data: bytes) -> Any:
    chosen = schema(api_key, version)
    start = skip_tagged_fields(data, 4) if chosen.response_header_flexible else 4
    return chosen.read_response(data, start)[0]


ALICE = Principal("User", "alice")
