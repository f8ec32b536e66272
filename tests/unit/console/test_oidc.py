"""Logging in elsewhere, at a provider that says what it is told to."""

import asyncio
import hashlib
import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from odradek.cli.errors import UserError
from odradek.console.settings import OidcSettings, check_exposure
from tests.unit.console.test_access import Served, header, settings

jwt = pytest.importorskip("joserfc.jwt")

from joserfc.jwk import ECKey, KeySet  # noqa: E402

from odradek.console.oidc import NotLetIn, Oidc  # noqa: E402

CLIENT = "odradek"
KEY = ECKey.generate_key("P-256", {"kid": "one", "use": "sig", "alg": "ES256"})


class Provider:
    def __init__(self, address: str) -> None:
        self.issuer = f"http://{address}"
        self.claims: dict[str, Any] = {}
        self.key = KEY
        self.challenge = ""
        self.refuses = False

    def answer(self, path: str, form: dict[str, list[str]], authorization: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
            return {"issuer": self.issuer} | {name: self.issuer + place for name, place in names.items()}
        if path == "/keys":
            return dict(KeySet([KEY]).as_dict(private=False))
        if path == "/token" and not self.refuses:
            verifier = form["code_verifier"][0]
            digest = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            assert digest == self.challenge
            assert b64decode(authorization.removeprefix("Basic ")) == b"odradek:se%2Fcret"
            assert form["code"] == ["the-code"]
            return {"id_token": jwt.encode({"alg": "ES256", "kid": "one"}, self.claims, self.key)}
        return None


@contextmanager
def running() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            told = provider.answer(self.path, parse_qs(body), self.headers.get("Authorization", ""))
            answer = json.dumps(told).encode()
            self.send_response(400 if told is None else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(f"127.0.0.1:{server.server_port}")
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()
        yield provider
        server.shutdown()


@pytest.fixture(scope="module")
def shared() -> Iterator[Provider]:
    with running() as provider:
        yield provider


@pytest.fixture
def provider(shared: Provider) -> Provider:
    shared.key, shared.refuses = KEY, False
    return shared


def told(provider: Provider, *allowed: str) -> OidcSettings:
    return OidcSettings(
        issuer=provider.issuer,
        client_id=CLIENT,
        client_secret="se/cret",
        public_url="http://127.0.0.1:8080",
        allowed=allowed or ("ann@example.org",),
    )


def begin(oidc: Oidc, provider: Provider, **claims: Any) -> tuple[str, str]:
    """The query with which the browser comes back, and its cookie; the provider has made up its mind meanwhile."""
    location, binding = asyncio.run(oidc.begin("/topics"))
    assert location.startswith(f"{provider.issuer}/authorize?")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    assert asked["redirect_uri"] == "http://127.0.0.1:8080/login/callback"
    provider.challenge = asked["code_challenge"]
    provider.claims = {
        "iss": provider.issuer,
        "aud": CLIENT,
        "sub": "7",
        "exp": int(time.time()) + 300,
        "nonce": asked["nonce"],
        "email": "Ann@example.org",
        "email_verified": True,
    } | claims
    return f"code=the-code&state={asked['state']}", binding


def finish(oidc: Oidc, query: str, binding: str) -> tuple[str, str]:
    return asyncio.run(oidc.finish(query, binding))


@pytest.mark.parametrize("allowed", ["ann@example.org", "@example.org", "7", "*"])
def test_who_is_named_comes_in_under_the_name_the_provider_gives(provider: Provider, allowed: str) -> None:
    oidc = Oidc(told(provider, allowed))
    query, binding = begin(oidc, provider)
    assert finish(oidc, query, binding) == ("Ann@example.org", "/topics")
    with pytest.raises(NotLetIn, match="not begun here"):
        finish(oidc, query, binding)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"email": "eve@example.org"}, "eve@example.org is not among those"),
        ({"email_verified": False}, "is not among those"),
        ({"email_verified": "true"}, "is not among those"),
        ({"iss": "http://other"}, "cannot be trusted"),
        ({"aud": "other"}, "cannot be trusted"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "issued for another party"),
        ({"exp": 1}, "cannot be trusted"),
        ({"nonce": "other"}, "cannot be trusted"),
    ],
)
def test_who_is_not_or_cannot_be_trusted_stays_out(provider: Provider, claims: dict[str, Any], why: str) -> None:
    oidc = Oidc(told(provider))
    query, binding = begin(oidc, provider, **claims)
    with pytest.raises(NotLetIn, match=why):
        finish(oidc, query, binding)


def test_a_foreign_signature_a_foreign_browser_and_a_refusal_stay_out(provider: Provider) -> None:
    oidc = Oidc(told(provider))
    query, binding = begin(oidc, provider)
    provider.key = ECKey.generate_key("P-256", {"kid": "one"})
    with pytest.raises(NotLetIn, match="cannot be trusted"):
        finish(oidc, query, binding)
    provider.key = KEY
    query, _ = begin(oidc, provider)
    with pytest.raises(NotLetIn, match="another browser"):
        finish(oidc, query, "")
    query, binding = begin(oidc, provider)
    with pytest.raises(NotLetIn, match=r"did not let you in: no\\x07"):
        finish(oidc, query.replace("code=the-code", "error=no%07"), binding)
    query, binding = begin(oidc, provider)
    provider.refuses = True
    with pytest.raises(NotLetIn, match=r"127\.0\.0\.1 answers 400"):
        finish(oidc, query, binding)
    with pytest.raises(NotLetIn, match="does not describe itself"):
        other = OidcSettings(**(_fields(told(provider)) | {"issuer": f"{provider.issuer}/"}))
        asyncio.run(Oidc(other).begin("/"))


def _fields(oidc: OidcSettings) -> dict[str, Any]:
    return {name: getattr(oidc, name) for name in ("issuer", "client_id", "client_secret", "public_url", "allowed")}


def test_the_door_sends_away_takes_back_and_remembers(provider: Provider) -> None:
    served = Served(settings(oidc=told(provider)))
    assert header(served.call("/topics"), "location") == "/login?next=%2Ftopics"
    assert served.call("/", kind="websocket")[0]["type"] == "websocket.close"
    sent = served.call("/login?next=%2Ftopics")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(header(sent, "location")).query).items()}
    cookie = header(sent, "set-cookie")
    assert "SameSite=Lax" in cookie and "HttpOnly" in cookie
    provider.challenge = asked["code_challenge"]
    provider.claims = {
        "iss": provider.issuer,
        "aud": CLIENT,
        "sub": "ann@example.org",
        "exp": int(time.time()) + 300,
        "nonce": asked["nonce"],
    }
    callback = f"/login/callback?code=the-code&state={asked['state']}"
    refused = served.call(callback)
    assert refused[0]["status"] == 403
    assert b"another browser" in refused[1]["body"]
    sent = served.call("/login?next=%2Ftopics%3Fsearch%3D%22%3E")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(header(sent, "location")).query).items()}
    provider.challenge, provider.claims["nonce"] = asked["code_challenge"], asked["nonce"]
    binding = header(sent, "set-cookie").partition(";")[0]
    entered = served.call(f"/login/callback?code=the-code&state={asked['state']}", cookie=binding)
    assert entered[0]["status"] == 200
    assert b"/topics?search=&quot;&gt;" in entered[1]["body"]
    session = header(entered, "set-cookie").partition(";")[0]
    assert served.call("/topics", cookie=session)[-1]["body"] == b"inside"
    assert served.who == ["ann@example.org (10.0.0.9)"]


def test_what_would_be_careless_is_refused_at_the_start(provider: Provider) -> None:
    given = _fields(told(provider))
    for change, why in (
        ({"allowed": ()}, "--oidc-allow"),
        ({"issuer": "http://login.example.org"}, "in the open"),
        ({"public_url": "console"}, "is no address"),
    ):
        with pytest.raises(UserError, match=why):
            check_exposure(settings(oidc=OidcSettings(**(given | change))))
    with pytest.raises(UserError, match="exclude each other"):
        check_exposure(settings(oidc=OidcSettings(**given), password="long enough"))
    with pytest.raises(UserError, match="give --tls-certificate and --tls-key too"):
        check_exposure(settings(oidc=OidcSettings(**given), host="0.0.0.0"))
    check_exposure(settings(oidc=OidcSettings(**given), host="0.0.0.0", certificate=Path("c"), private_key=Path("k")))
