"""OAUTHBEARER (RFC 7628): the client sends a token, which the server verifies.

After a token that it rejects, a server sends a challenge with a status in JSON; the client responds with one byte, and
only then the exchange fails.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from odradek.base.principal import USER, Principal
from odradek.wire.sasl.exchange import OAUTHBEARER, AuthenticationFailed, SaslError

INVALID_TOKEN: Final = '{"status":"invalid_token"}'
EXTENSIONS_MAX: Final = 100
_SEPARATOR: Final = b"\x01"
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_INITIAL: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class InvalidToken(Exception):
    """The text is for the log of the server only, and contains no part of the token."""


class VerifiedToken(NamedTuple):
    subject: str
    expires_at_ms: int


def parse_initial_response(message: bytes) -> tuple[str, str]:
    """The token, and the authorization ID or an empty text. Raises SaslError."""
    is_short = message.count(_SEPARATOR) <= EXTENSIONS_MAX
    found = _INITIAL.fullmatch(message.decode(errors="replace")) if is_short else None
    if found is None:
        raise SaslError("invalid first OAUTHBEARER message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslError("no bearer token in the first OAUTHBEARER message")
    return bearer["token"], found["authorization_id"] or ""


class OAuthServer:
    def __init__(self, verify: Callable[[str], VerifiedToken]) -> None:
        """`verify` raises InvalidToken. It may take milliseconds."""
        self._verify: Final = verify
        self._rejection: str | None = None
        self._principal: Principal | None = None
        self.expires_at_ms: int | None = None

    def blocks(self, response: bytes) -> bool:
        return len(response) > 1

    def next(self, response: bytes) -> bytes:
        if self._rejection is not None:
            # Kafka would verify further tokens on the same connection.
            raise AuthenticationFailed(INVALID_TOKEN) if response == _SEPARATOR else SaslError(self._rejection)
        token, authorization_id = parse_initial_response(response)
        try:
            verified = self._verify(token)
        except InvalidToken as error:
            self._rejection = str(error)
            return INVALID_TOKEN.encode()
        if authorization_id and authorization_id != verified.subject:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({verified.subject})"
            )
        self._principal = Principal(USER, verified.subject)
        self.expires_at_ms = verified.expires_at_ms
        return b""

    @property
    def is_complete(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        assert self._principal is not None
        return self._principal


class OAuthClient:
    mechanism = OAUTHBEARER
    blocks = True

    def __init__(self, find_token: Callable[[], str]) -> None:
        """`find_token` may read a file. Raises SaslError."""
        self._find_token: Final = find_token
        self._challenge = b""
        self._steps: Final = self._run()

    def next(self, challenge: bytes = b"") -> bytes | None:
        self._challenge = challenge
        return next(self._steps, None)

    def _run(self) -> Iterator[bytes]:
        yield f"n,,\x01auth=Bearer {self._find_token()}\x01\x01".encode()
        if self._challenge:
            status = self._challenge[:200].decode(errors="replace")
            yield _SEPARATOR
            raise SaslError(f"the broker rejected the token: {status}")
