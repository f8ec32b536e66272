"""The server side of SCRAM (RFC 5802, RFC 7677).

An unknown user or delegation token gets a challenge too, with a salt that is always the same, and fails at the end as
a wrong password does: the exchange does not reveal which users exist.
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.base.principal import USER, Principal
from odradek.core.metadata.image import ScramCredential
from odradek.core.security.scram_credentials import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
from odradek.wire.sasl.exchange import AuthenticationFailed, SaslError
from odradek.wire.sasl.scram_messages import ClientFirst, parse_client_final, parse_client_first


class TokenLogin(NamedTuple):
    """What a delegation token proves."""

    credential: ScramCredential
    owner: Principal
    expires_at_ms: int


class ScramLookup(NamedTuple):
    """Where a SCRAM server finds credentials."""

    find_user: Callable[[ScramMechanism, str], ScramCredential | None]
    find_token: Callable[[ScramMechanism, str], TokenLogin | None]
    """It may take milliseconds."""
    fake_salt_key: bytes
    """A secret from which the salts of unknown users are derived."""


class _Challenge(NamedTuple):
    first: ClientFirst
    text: str
    nonce: str
    credential: ScramCredential
    login: Principal | None
    """None: the user is unknown."""
    expires_at_ms: int | None


class ScramServer:
    def __init__(self, mechanism: ScramMechanism, lookup: ScramLookup, nonce: str) -> None:
        """`nonce` is this server's part: random, and used once."""
        self._mechanism: Final = mechanism
        self._lookup: Final = lookup
        self._nonce: Final = nonce
        self._challenge: _Challenge | None = None
        self._has_failed = False
        self._principal: Principal | None = None
        self.claimed_user: str | None = None
        """Known before the password is checked. Of a delegation token: its ID."""
        self.expires_at_ms: int | None = None

    def blocks(self, response: bytes) -> bool:
        """The credential of a delegation token is computed with thousands of iterations."""
        return self._challenge is None and b"tokenauth=true" in response.lower()

    def next(self, response: bytes) -> bytes:
        if self._has_failed or self._principal is not None:
            raise SaslError("the SCRAM exchange is over")
        try:
            return self._on_first(response) if self._challenge is None else self._on_final(response, self._challenge)
        except SaslError:
            self._has_failed = True
            raise

    @property
    def is_complete(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        assert self._principal is not None
        return self._principal

    def _on_first(self, message: bytes) -> bytes:
        first = parse_client_first(message)
        self.claimed_user = first.username
        if first.authorization_id and first.authorization_id != first.username:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential, login, expires_at_ms = self._find(first)
        if credential.iterations < ITERATIONS_MIN:
            raise SaslError(f"the credential has {credential.iterations} iterations, less than {ITERATIONS_MIN}")
        nonce = first.nonce + self._nonce
        text = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._challenge = _Challenge(first, text, nonce, credential, login, expires_at_ms)
        return text.encode()

    def _find(self, first: ClientFirst) -> tuple[ScramCredential, Principal | None, int | None]:
        if first.is_token:
            token = self._lookup.find_token(self._mechanism, first.username)
            if token is not None:
                return token.credential, token.owner._replace(token_authenticated=True), token.expires_at_ms
        else:
            found = self._lookup.find_user(self._mechanism, first.username)
            if found is not None:
                return found, Principal(USER, first.username), None
        return self._fake_credential(first.username), None, None

    def _fake_credential(self, username: str) -> ScramCredential:
        derived = hmac.digest(self._lookup.fake_salt_key, f"{self._mechanism} {username}".encode(), "sha512")
        key = bytes(hashlib.new(self._mechanism.digest).digest_size)
        return ScramCredential(salt=derived[:SALT_BYTES], stored_key=key, server_key=key, iterations=ITERATIONS_MIN)

    def _on_final(self, message: bytes, challenge: _Challenge) -> bytes:
        final = parse_client_final(message)
        # Without this check a recorded exchange could be continued with another proof (CVE-2024-56128).
        if not hmac.compare_digest(final.nonce.encode(), challenge.nonce.encode()):
            raise SaslError("the final SCRAM message has a wrong nonce")
        if final.binding != challenge.first.header.encode():
            raise SaslError("the final SCRAM message has a wrong channel binding")
        signed = f"{challenge.first.bare},{challenge.text},{final.bare}".encode()
        credential, digest = challenge.credential, self._mechanism.digest
        signature = hmac.digest(credential.stored_key, signed, digest)
        if len(final.proof) != len(signature):
            raise SaslError("the SCRAM proof has a wrong length")
        client_key = bytes(one ^ other for one, other in zip(final.proof, signature, strict=True))
        is_valid = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        if not is_valid or challenge.login is None:
            raise SaslError("wrong user name or password")
        self._principal, self.expires_at_ms = challenge.login, challenge.expires_at_ms
        return b"v=" + b64encode(hmac.digest(credential.server_key, signed, digest))
