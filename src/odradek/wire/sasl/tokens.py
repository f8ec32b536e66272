"""Verifies the JSON web tokens of OAUTHBEARER clients: signature, times, issuer, audience, subject."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import JWKRegistry, Key

from odradek.wire.sasl.oauth import InvalidToken, VerifiedToken

# Signatures with public keys only: neither "none", nor HMAC, for which a public key would be the secret.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
_KEY_TYPES: Final = ("RSA", "EC", "OKP")
_KEYS_MAX: Final = 1000
_TIMESTAMP_MAX: Final = 10**11
TOKEN_BYTES_MAX: Final = 128 * 1024

Keys = Mapping[str | None, Sequence[Key]]
"""By key ID; None: keys without one."""


class UnknownKey(InvalidToken):
    """The token names a key that is not in the set, which may have changed."""


class TokenRules(NamedTuple):
    issuer: str | None
    """None: any."""
    audiences: tuple[str, ...]
    """One of them must be an audience of the token. Without any, a token must have no audience."""
    skew_seconds: int
    subject_claim: str
    scope_claim: str


def parse_keys(text: bytes) -> Keys:
    """The public keys of a JWKS. Keys of other types, or for encryption, are ignored. Raises ValueError."""
    document = json.loads(text)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("not a JSON web key set")
    keys: dict[str | None, list[Key]] = {}
    for data in listed[:_KEYS_MAX]:
        if not isinstance(data, dict) or data.get("kty") not in _KEY_TYPES or data.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(data)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        identifier = data.get("kid")
        keys.setdefault(identifier if isinstance(identifier, str) else None, []).append(key)
    if not keys:
        raise ValueError("no public key in the key set")
    return keys


def verify_token(token: str, keys: Keys, rules: TokenRules, now_seconds: float) -> VerifiedToken:
    """Raises InvalidToken."""
    if len(token) > TOKEN_BYTES_MAX:
        raise InvalidToken("the token is too long")
    header = _json_part(token, 0)
    identifier = header.get("kid")
    if header.get("alg") not in ALGORITHMS:
        raise InvalidToken("the token's algorithm is not allowed")
    if identifier is not None and identifier not in keys:
        raise UnknownKey("the token names an unknown key")
    candidates = keys[identifier] if identifier is not None else [one for group in keys.values() for one in group]
    for key in candidates:
        try:
            payload = jws.deserialize_compact(token.encode(), key, list(ALGORITHMS), _REGISTRY).payload
        except (JoseError, ValueError, TypeError):
            continue
        return _check_claims(_claims(payload), rules, now_seconds)
    raise InvalidToken("the token's signature is not valid")


def verify_unsecured_token(token: str, rules: TokenRules, now_seconds: float) -> VerifiedToken:
    """A token without a signature proves nothing: only for tests. Raises InvalidToken."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2] or _json_part(token, 0).get("alg") != "none":
        raise InvalidToken("the token is not an unsecured one")
    return _check_claims({"iat": now_seconds, **_json_part(token, 1)}, rules, now_seconds)


class _Registry(jws.JWSRegistry):
    """Its limits on the sizes of the parts are too small for tokens with many groups."""

    max_header_length = 16 * 1024
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = 16 * 1024

    def get_alg(self, name: str) -> Any:
        """Without the warning about EdDSA, which the issuer of a token chooses."""
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError("not allowed")
        return self.algorithms[name]


_REGISTRY: Final = _Registry(algorithms=list(ALGORITHMS), strict_check_header=False)


def _json_part(token: str, number: int) -> dict[str, Any]:
    parts = token.split(".", 3)
    if len(parts) != 3:
        raise InvalidToken("the token is not a JSON web signature")
    part = parts[number]
    try:
        return _claims(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        raise InvalidToken("the token is not a JSON web signature") from None


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        raise InvalidToken("the token is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidToken("the token is not a JSON object")
    return found


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_seconds: float) -> VerifiedToken:
    expires_at = _timestamp(claims, "exp")
    _timestamp(claims, "iat")
    if now_seconds - rules.skew_seconds >= expires_at:
        raise InvalidToken("the token has expired")
    if "nbf" in claims and _timestamp(claims, "nbf") > now_seconds + rules.skew_seconds:
        raise InvalidToken("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidToken("the token has a wrong issuer")
    _check_audience(claims.get("aud"), rules)
    _check_scope(claims.get(rules.scope_claim))
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidToken(f"the token has no claim {rules.subject_claim}")
    return VerifiedToken(subject.strip(), int(expires_at * 1000))


def _check_audience(audience: Any, rules: TokenRules) -> None:
    if audience is None and not rules.audiences:
        return
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not any(one in rules.audiences for one in named):
        raise InvalidToken("the token has a wrong audience")


def _check_scope(scope: Any) -> None:
    listed = [scope] if isinstance(scope, str) else scope
    if listed is None:
        return
    if not isinstance(listed, list) or not all(isinstance(one, str) and one.strip() for one in listed):
        raise InvalidToken("the token has an invalid scope")


def _timestamp(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _TIMESTAMP_MAX:
        raise InvalidToken(f"the token has no valid claim {name}")
    return float(value)
