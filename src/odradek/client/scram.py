"""The client side of SCRAM (RFC 5802, RFC 7677), which proves the password without sending it. Pure."""

import base64
import hashlib
import hmac
from typing import Final

_DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MIN: Final = 4096
# Base64 of "n,,": no channel binding.
_NO_BINDING: Final = "biws"

MECHANISMS: Final = tuple(_DIGESTS)


class ScramError(Exception):
    """The server could not be authenticated, or rejected the client."""


class ScramClient:
    """Two messages each way: `first`, the server's challenge, `final`, and the server's proof."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._digest = _DIGESTS[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        text = server_first.decode()
        fields = _fields(text)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise ScramError(f"invalid SCRAM message from the broker: {text[:100]!r}") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the broker's SCRAM message has a wrong nonce")
        if iterations < _ITERATIONS_MIN:
            raise ScramError(f"the broker requests {iterations} iterations, too few to protect the password")
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        bare = f"c={_NO_BINDING},r={nonce}"
        said = f"{self._first_bare},{text},{bare}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), said)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raise ScramError unless the server proves that it knows the password."""
        fields = _fields(server_final.decode())
        if "e" in fields:
            raise ScramError(f"the broker rejected the login: {fields['e']}")
        if not hmac.compare_digest(base64.b64decode(fields.get("v", "")), self._server_signature):
            raise ScramError("the broker could not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
