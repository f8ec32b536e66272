"""Login with OpenID Connect: the authorization code flow with PKCE, state and nonce.

A login needs a valid signature, audience and nonce, and an allowed name. An email address counts only if the provider
has verified it, because users can enter any address.
"""

import asyncio
import base64
import hashlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from odradek.client.json_over_http import HttpRequestFailed, request_json
from odradek.console.readings.table import inert
from odradek.console.settings import OidcSettings

CALLBACK: Final = "/login/callback"
# Maximum duration and number of pending logins.
ATTEMPT_S: Final = 600.0
ATTEMPTS_MAX: Final = 1000
ALL_USERS: Final = "*"

_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
_LEEWAY_S: Final = 60


class LoginDenied(Exception):
    """The message is shown to the user."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    binding: str
    """Secret stored only in the browser that started the login."""
    nonce: str
    verifier: str
    there: str
    until_s: float


class Oidc:
    def __init__(self, settings: OidcSettings) -> None:
        self._settings: Final = settings
        self._attempts: Final[OrderedDict[str, _Attempt]] = OrderedDict()

    async def begin(self, there: str) -> tuple[str, str]:
        """Returns the provider's login URL and a cookie that the browser must return. Raises LoginDenied."""
        provider = await self._discover()
        state, attempt = secrets.token_urlsafe(24), self._attempt(there)
        self._attempts[state] = attempt
        while len(self._attempts) > ATTEMPTS_MAX:
            self._attempts.popitem(last=False)
        digest = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._settings.public_url + CALLBACK,
            "scope": "openid email profile",
            "state": state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        endpoint = str(provider["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", attempt.binding

    async def finish(self, query: str, binding: str) -> tuple[str, str]:
        """Returns the user's name and the requested page. Raises LoginDenied."""
        given = {name: values[0] for name, values in parse_qs(query).items()}
        attempt = self._attempts.pop(given.get("state", ""), None)
        if attempt is None or attempt.until_s < time.monotonic():
            raise LoginDenied("This login has expired or was not started here. Log in again.")
        if not secrets.compare_digest(attempt.binding.encode(), binding.encode()):
            raise LoginDenied("This login was started in another browser. Log in again.")
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "no reason"
            raise LoginDenied(f"The identity provider denied the login: {inert(why)}.")
        claims = await self._claims(given["code"], attempt)
        return self._name_of(claims), attempt.there

    def _attempt(self, there: str) -> _Attempt:
        return _Attempt(
            binding=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            there=there,
            until_s=time.monotonic() + ATTEMPT_S,
        )

    async def _discover(self) -> dict[str, Any]:
        issuer = self._settings.issuer
        found = await _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if found.get("issuer") != issuer or any(not isinstance(found.get(name), str) for name in needed):
            raise LoginDenied(f"{issuer} does not identify itself as the issuer given with --oidc-issuer.")
        return found

    async def _claims(self, code: str, attempt: _Attempt) -> dict[str, Any]:
        settings, provider = self._settings, await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.public_url + CALLBACK,
            "code_verifier": attempt.verifier,
            "client_id": settings.client_id,
        }
        pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
        basic = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        tokens = await _fetch(str(provider["token_endpoint"]), headers=basic, form=form)
        keys = await _fetch(str(provider["jwks_uri"]))
        try:
            return _validate_token(str(tokens.get("id_token", "")), keys, settings, attempt.nonce)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise LoginDenied(f"The identity provider's token is not valid: {inert(str(error))}.") from None

    def _name_of(self, claims: dict[str, Any]) -> str:
        subject = str(claims["sub"])
        mail = str(claims["email"]) if claims.get("email") and claims.get("email_verified") is True else None
        name = inert(mail or str(claims.get("preferred_username") or subject))[:64]
        allowed = self._settings.allowed
        known = {subject} | ({mail.lower(), "@" + mail.lower().rpartition("@")[2]} if mail else set())
        if ALL_USERS in allowed or known & set(allowed):
            return name
        raise LoginDenied(f"{name} is not allowed by --oidc-allow.")


def _validate_token(token: str, keys: dict[str, Any], settings: OidcSettings, nonce: str) -> dict[str, Any]:
    decoded = jwt.decode(token, KeySet.import_key_set(keys), algorithms=_ALGORITHMS)  # type: ignore[arg-type]
    claims = dict(decoded.claims)
    jwt.JWTClaimsRegistry(
        leeway=_LEEWAY_S,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        exp={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": nonce},
    ).validate(claims)
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != settings.client_id:
        raise ValueError("it was issued for another party")
    return claims


async def _fetch(url: str, **more: Any) -> dict[str, Any]:
    try:
        return await asyncio.to_thread(request_json, url, **more)
    except (HttpRequestFailed, ValueError) as error:
        raise LoginDenied(f"Cannot reach the identity provider: {inert(str(error))}. Try again in a moment.") from None
