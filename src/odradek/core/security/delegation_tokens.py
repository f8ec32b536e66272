"""Delegation tokens (KIP-48): what proves one, when it expires, and which principals may renew or see it. Pure.

The metadata log has no secret of a token: its HMAC follows from its ID and `delegation.token.secret.key`, which all
nodes share. A client proves a token with SCRAM: its user name is the token ID, its password the HMAC in base64.
"""

import hashlib
import hmac
from base64 import b64encode
from typing import Final

from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.metadata.image import DelegationToken
from odradek.core.metadata.persistent_map import PersistentMap

SCRAM_ITERATIONS: Final = 4096
"""Of the SCRAM credential that is derived from a token."""
INT64_MAX: Final = 2**63 - 1


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), hashlib.sha512)


def token_password(secret: str, token_id: str) -> str:
    """The password with which a client authenticates by SCRAM."""
    return b64encode(token_hmac(secret, token_id)).decode()


def requests_are_allowed(principal: Principal, security_protocol: str) -> bool:
    """Whether a client may create, renew, expire or describe tokens on its connection at all.

    It must have authenticated, and not with a token: a token cannot extend its own life.
    """
    if principal.token_authenticated or security_protocol == "PLAINTEXT":
        return False
    return security_protocol != "SSL" or not is_same(principal, ANONYMOUS)


def is_same(one: Principal, other: Principal) -> bool:
    """Whether a token authenticated the principal makes no difference."""
    return (one.type, one.name) == (other.type, other.name)


def is_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp_ms < now_ms or token.expiration_timestamp_ms < now_ms


def may_renew(token: DelegationToken, principal: Principal) -> bool:
    """Whether the principal may renew and expire the token. The requester may not."""
    name = str(principal)
    return name == token.owner or name in token.renewers


def is_party(token: DelegationToken, principal: Principal) -> bool:
    """Whether the principal always sees the token: its owner, its requester and its renewers."""
    return may_renew(token, principal) or str(principal) == token.requester


def later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, INT64_MAX)


def new_timestamps(now_ms: int, *, max_lifetime_ms: int, requested_ms: int, renew_period_ms: int) -> tuple[int, int]:
    """The maximum timestamp and the expiry of a new token. `requested_ms` of 0 or less: the maximum lifetime."""
    lifetime = min(max_lifetime_ms, requested_ms) if requested_ms > 0 else max_lifetime_ms
    max_timestamp = later(now_ms, lifetime)
    return max_timestamp, min(max_timestamp, later(now_ms, renew_period_ms))


def renewed_expiry(token: DelegationToken, now_ms: int, *, requested_ms: int, renew_period_ms: int) -> int:
    """`requested_ms` of 0 or less: the renew period."""
    period = min(renew_period_ms, requested_ms) if requested_ms > 0 else renew_period_ms
    return min(token.max_timestamp_ms, later(now_ms, period))


class TokensByHmac:
    """Finds a token by its HMAC. Follows the changes of the image, so that an HMAC is computed once."""

    def __init__(self, secret: str) -> None:
        self._secret: Final = secret
        self._seen: PersistentMap[str, DelegationToken] = PersistentMap()
        self._id_of: Final[dict[bytes, str]] = {}
        self._hmac_of: Final[dict[str, bytes]] = {}

    def find(
        self, tokens: PersistentMap[str, DelegationToken], hmac_bytes: bytes
    ) -> tuple[str, DelegationToken] | None:
        """The ID and the token. `tokens` are those of an image."""
        self.follow(tokens)
        token_id = self._id_of.get(hmac_bytes)
        return None if token_id is None else (token_id, tokens[token_id])

    def follow(self, tokens: PersistentMap[str, DelegationToken]) -> None:
        if tokens is self._seen:
            return
        for token_id in tokens.keys_that_may_differ(self._seen):
            known = self._hmac_of.get(token_id)
            if token_id not in tokens:
                if known is not None:
                    del self._id_of[known], self._hmac_of[token_id]
            elif known is None:
                key = self._hmac_of[token_id] = token_hmac(self._secret, token_id)
                self._id_of[key] = token_id
        self._seen = tokens
        assert len(self._hmac_of) == len(tokens), "each token has one HMAC"
