"""PLAIN (RFC 4616): the client sends its password."""

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from odradek.base.principal import USER, Principal
from odradek.wire.sasl.exchange import PLAIN, AuthenticationFailed

_TOKENS: Final = 3


class PlainUsers:
    """The users of a listener. Keeps digests of the passwords, and needs the same time for unknown users."""

    def __init__(self, passwords: Mapping[str, str], key: bytes) -> None:
        """`key` is random: digests of the same password differ between nodes."""
        self._key: Final = key
        self._digests: Final = {name: self._digest(password) for name, password in passwords.items()}
        self._unknown: Final = self._digest(key.hex())

    def verify(self, username: str, password: str) -> bool:
        known = self._digests.get(username)
        is_equal = hmac.compare_digest(self._digest(password), known or self._unknown)
        return is_equal and known is not None

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(errors="surrogatepass"), hashlib.sha256)


class PlainServer:
    """One message; the empty response completes the exchange."""

    expires_at_ms = None

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self._verify: Final = verify
        self._username: str | None = None
        self.claimed_user: str | None = None
        """Known before the password is checked."""

    def blocks(self, response: bytes) -> bool:
        return False

    def next(self, response: bytes) -> bytes:
        assert not self.is_complete, "PLAIN has one message"
        tokens = response.decode(errors="replace").split("\0", _TOKENS)
        if len(tokens) != _TOKENS:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, username, password = tokens
        self.claimed_user = username
        if not username:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        if not self._verify(username, password):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != username:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._username = username
        return b""

    @property
    def is_complete(self) -> bool:
        return self._username is not None

    @property
    def principal(self) -> Principal:
        assert self._username is not None
        return Principal(USER, self._username)


class PlainClient:
    mechanism = PLAIN
    blocks = False

    def __init__(self, username: str, password: str) -> None:
        self._steps: Final = self._run(f"\0{username}\0{password}".encode())

    def next(self, challenge: bytes = b"") -> bytes | None:
        return next(self._steps, None)

    @staticmethod
    def _run(message: bytes) -> Iterator[bytes]:
        yield message
