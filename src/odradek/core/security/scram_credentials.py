"""What the metadata log keeps of a SCRAM password (RFC 5802): keys that verify it and cannot replace it. Pure."""

import hashlib
import hmac
from enum import IntEnum
from typing import Final

from odradek.core.metadata.image import ScramCredential

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
SALT_BYTES: Final = 32
"""Of a salt that a server or a tool generates."""


class ScramMechanism(IntEnum):
    """By the codes of Kafka's requests and records."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def text(self) -> str:
        """As in `sasl.enabled.mechanisms`."""
        return f"SCRAM-SHA-{self.name[4:]}"

    @property
    def digest(self) -> str:
        return f"sha{self.name[4:]}"


def find_mechanism(code: int) -> ScramMechanism | None:
    return ScramMechanism(code) if code in ScramMechanism._value2member_map_ else None


def find_mechanism_named(text: str) -> ScramMechanism | None:
    return next((one for one in ScramMechanism if one.text == text), None)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes a millisecond per thousand iterations: on a node, run it in a thread.

    As in Kafka, the password is not normalized.
    """
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int) -> ScramCredential:
    """From the salted password, which only its owner and the tool that sets it know."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
        iterations=iterations,
    )
