"""What all SASL exchanges share: their errors, and the names of the mechanisms."""

from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"

SCRAM_DIGESTS: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}


class SaslError(Exception):
    """The exchange failed. A client never sees the text: it could reveal which users exist."""


class AuthenticationFailed(SaslError):
    """The credentials are rejected. The client receives the text."""
