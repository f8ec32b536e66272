"""Tokens for OAUTHBEARER: from a file, or from an identity provider with the grant of client credentials (RFC 6749).

A provider's token is used again for most of its lifetime, because each connection needs one.
"""

import json
import re
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import url2pathname

from odradek.wire.sasl.exchange import SaslError

RESPONSE_BYTES_MAX: Final = 1 << 20
TIMEOUT_SECONDS: Final = 10.0
_LIFETIME_SHARE: Final = 0.8
"""As Kafka's clients, which log in again after this part of a token's lifetime."""
_CACHED_MAX: Final = 16
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")


@dataclass(frozen=True, slots=True)
class _Credentials:
    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str


_cached: Final[dict[_Credentials, tuple[str, float]]] = {}
"""Tokens, and the monotonic time at which each is renewed."""
_lock: Final = threading.Lock()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """The credentials are for this server alone."""
        return


def find_token(url: str, client_id: str = "", client_secret: str = "", scope: str = "") -> str:
    """Blocks. Raises SaslError without any part of the credentials or of the token."""
    if urlsplit(url).scheme == "file":
        return _checked(_read_file(url2pathname(urlsplit(url).path)), url)
    credentials = _Credentials(url, client_id, client_secret, scope)
    with _lock:
        token, renewed_at = _cached.get(credentials, ("", 0.0))
        if not token or time.monotonic() >= renewed_at:
            token, lifetime_seconds = _request(credentials)
            while len(_cached) >= _CACHED_MAX:
                _cached.pop(next(iter(_cached)))
            _cached[credentials] = token, time.monotonic() + lifetime_seconds * _LIFETIME_SHARE
    return token


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(RESPONSE_BYTES_MAX).decode(errors="replace").strip()
    except OSError as error:
        raise SaslError(f"cannot read the token from {path!r}: {error.strerror or error}") from None


def _request(credentials: _Credentials) -> tuple[str, float]:
    """The token and its lifetime in seconds."""
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    basic = b64encode(f"{credentials.client_id}:{credentials.client_secret}".encode()).decode()
    headers = {"Accept": "application/json", "Authorization": f"Basic {basic}"}
    request = urllib.request.Request(credentials.url, data=urlencode(form).encode(), headers=headers)
    place = _without_secrets(credentials.url)
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_SECONDS) as response:
            data = response.read(RESPONSE_BYTES_MAX)
    except urllib.error.HTTPError as error:
        raise SaslError(f"{place} issues no token: HTTP status {error.code}. Check the client ID and secret") from None
    except (OSError, ValueError) as error:
        raise SaslError(f"cannot request a token from {place}: {getattr(error, 'reason', None) or error}") from None
    try:
        found = json.loads(data)
        token, lifetime = str(found["access_token"]), float(found.get("expires_in", 0))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SaslError(f"the response of {place} has no access_token") from None
    return _checked(token, place), lifetime


def _checked(token: str, place: str) -> str:
    """The message to the broker has separators, which a token must not contain."""
    if _TOKEN.fullmatch(token) is None:
        raise SaslError(f"{place} contains no bearer token")
    return token


def _without_secrets(url: str) -> str:
    """The URL without a password and without a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
