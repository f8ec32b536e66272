"""The client side of SCRAM (RFC 5802, RFC 7677), which proves the password without sending it."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from odradek.wire.sasl.exchange import SCRAM_DIGESTS, SaslError

_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 1_000_000
"""More would let a server occupy the client's processor for seconds."""
# Base64 of "n,,": no channel binding.
_NO_BINDING: Final = "biws"


class ScramClient:
    """Two messages each way: `first`, the server's challenge, `final`, and the server's proof."""

    blocks = True

    def __init__(self, mechanism: str, username: str, password: str, nonce: str, *, has_token: bool = False) -> None:
        """`has_token`: the username is the ID of a delegation token, and the password its HMAC."""
        self.mechanism: Final = mechanism
        self._digest: Final = SCRAM_DIGESTS[mechanism]
        self._password: Final = password.encode()
        self._nonce: Final = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if has_token else ""
        self._first_bare: Final = f"n={name},r={nonce}{extension}"
        self._server_signature = b""
        self._messages_sent = 0

    def next(self, challenge: bytes = b"") -> bytes | None:
        self._messages_sent += 1
        if self._messages_sent == 1:
            return self.first()
        if self._messages_sent == 2:
            return self.final(challenge)
        self.check(challenge)
        return None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        text, fields = _parse(server_first)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError):
            raise SaslError(f"invalid SCRAM message from the broker: {text[:100]!r}") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("the broker's SCRAM message has a wrong nonce")
        if iterations < _ITERATIONS_MIN:
            raise SaslError(f"the broker requests {iterations} iterations, too few to protect the password")
        if iterations > _ITERATIONS_MAX:
            raise SaslError(f"the broker requests {iterations} iterations, more than {_ITERATIONS_MAX}")
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        bare = f"c={_NO_BINDING},r={nonce}"
        auth_message = f"{self._first_bare},{text},{bare}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), auth_message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), auth_message)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raises SaslError unless the server proves that it knows the password."""
        _, fields = _parse(server_final)
        if "e" in fields:
            raise SaslError(f"the broker rejected the login: {fields['e'][:100]}")
        try:
            signature = base64.b64decode(fields.get("v", ""), validate=True)
        except binascii.Error:
            signature = b""
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise SaslError("the broker could not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _parse(message: bytes) -> tuple[str, dict[str, str]]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslError("invalid SCRAM message from the broker: not UTF-8") from None
    return text, {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
