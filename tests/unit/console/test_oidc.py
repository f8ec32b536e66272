"""Login through an OpenID Connect provider."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc.jwk import ECKey

from odradek.console.oidc import LoginDenied, Oidc
from odradek.console.settings import OidcSettings, check_exposure
from odradek.text.errors import UserError
from tests.oidc_provider import CLIENT, SECRET, Provider, oidc_provider
from tests.unit.console.test_access import Served, header, settings

pytestmark = pytest.mark.needs("nicegui")


@pytest.fixture(scope="module")
def shared() -> Iterator[Provider]:
    with oidc_provider() as running:
        yield running


@pytest.fixture
def provider(shared: Provider) -> Provider:
    shared.forget()
    return shared


def oidc_settings(provider: Provider, *allowed: str) -> OidcSettings:
    return OidcSettings(
        issuer=provider.issuer,
        client_id=CLIENT,
        client_secret=SECRET,
        public_url="http://127.0.0.1:8080",
        allowed=allowed or ("ann@example.org",),
    )


def begin(oidc: Oidc, provider: Provider) -> tuple[str, str]:
    """Returns the query of the provider's redirect to the callback, and the browser's cookie."""
    location, binding = asyncio.run(oidc.begin("/topics"))
    assert location.startswith(f"{provider.issuer}/authorize?")
    back = provider.authorize(urlsplit(location).query)
    assert back.startswith("http://127.0.0.1:8080/login/callback?")
    return urlsplit(back).query, binding


def finish(oidc: Oidc, query: str, binding: str) -> tuple[str, str]:
    return asyncio.run(oidc.finish(query, binding))


@pytest.mark.parametrize("allowed", ["ann@example.org", "@example.org", "7", "*"])
def test_allowed_user_logs_in_once_with_the_providers_name(provider: Provider, allowed: str) -> None:
    oidc = Oidc(oidc_settings(provider, allowed))
    query, binding = begin(oidc, provider)
    assert finish(oidc, query, binding) == ("Ann@example.org", "/topics")
    with pytest.raises(LoginDenied, match="not started here"):
        finish(oidc, query, binding)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"email": "eve@example.org"}, "eve@example.org is not allowed by --oidc-allow"),
        ({"email_verified": False}, "is not allowed by --oidc-allow"),
        ({"email_verified": "true"}, "is not allowed by --oidc-allow"),
        ({"iss": "http://other"}, "token is not valid"),
        ({"aud": "other"}, "token is not valid"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "issued for another party"),
        ({"exp": 1}, "token is not valid"),
        ({"nonce": "other"}, "token is not valid"),
    ],
)
def test_user_with_disallowed_or_invalid_claims_is_rejected(
    provider: Provider, claims: dict[str, Any], why: str
) -> None:
    oidc = Oidc(oidc_settings(provider))
    query, binding = begin(oidc, provider)
    provider.claims = claims
    with pytest.raises(LoginDenied, match=why):
        finish(oidc, query, binding)


def test_wrong_signature_other_browser_and_denied_login_are_rejected(provider: Provider) -> None:
    oidc = Oidc(oidc_settings(provider))
    query, binding = begin(oidc, provider)
    provider.signing_key = ECKey.generate_key("P-256", {"kid": "one"})
    with pytest.raises(LoginDenied, match="token is not valid"):
        finish(oidc, query, binding)
    provider.forget()
    query, _ = begin(oidc, provider)
    with pytest.raises(LoginDenied, match="another browser"):
        finish(oidc, query, "")
    query, binding = begin(oidc, provider)
    with pytest.raises(LoginDenied, match=r"denied the login: no\\x07"):
        finish(oidc, query.replace("code=the-code", "error=no%07"), binding)
    query, binding = begin(oidc, provider)
    provider.refuses = True
    with pytest.raises(LoginDenied, match=r"127\.0\.0\.1 returned HTTP 400"):
        finish(oidc, query, binding)
    with pytest.raises(LoginDenied, match="does not identify itself"):
        asyncio.run(Oidc(replace(oidc_settings(provider), issuer=f"{provider.issuer}/")).begin("/"))


def test_login_redirects_to_the_provider_and_starts_a_session(provider: Provider) -> None:
    served = Served(settings(oidc=oidc_settings(provider)))
    assert header(served.call("/topics"), "location") == "/login?next=%2Ftopics"
    assert served.call("/", kind="websocket")[0]["type"] == "websocket.close"

    def log_in(**cookies: str) -> list[dict[str, Any]]:
        sent = served.call("/login?next=%2Ftopics%3Fsearch%3D%22%3E")
        cookie = header(sent, "set-cookie")
        assert "SameSite=Lax" in cookie
        assert "HttpOnly" in cookie
        back = urlsplit(provider.authorize(urlsplit(header(sent, "location")).query))
        return served.call(f"{back.path}?{back.query}", **({"cookie": cookie.partition(";")[0]} | cookies))

    refused = log_in(cookie="")
    assert refused[0]["status"] == 403
    assert b"another browser" in refused[1]["body"]
    logged_in = log_in()
    assert logged_in[0]["status"] == 200
    assert b"/topics?search=&quot;&gt;" in logged_in[1]["body"]
    session = header(logged_in, "set-cookie").partition(";")[0]
    assert served.call("/topics", cookie=session)[-1]["body"] == b"inside"
    assert served.user == ["Ann@example.org (10.0.0.9)"]


def test_insecure_oidc_settings_are_rejected(provider: Provider) -> None:
    given = oidc_settings(provider)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"allowed": ()}, "--oidc-allow"),
        ({"issuer": "http://login.example.org"}, "unencrypted"),
        ({"public_url": "console"}, "is not a URL"),
    ]
    for change, why in changes:
        with pytest.raises(UserError, match=why):
            check_exposure(settings(oidc=replace(given, **change)))
    with pytest.raises(UserError, match="cannot be combined"):
        check_exposure(settings(oidc=given, password="long enough"))
    with pytest.raises(UserError, match="add --tls-certificate and --tls-key"):
        check_exposure(settings(oidc=given, host="0.0.0.0"))
    check_exposure(settings(oidc=given, host="0.0.0.0", certificate=Path("c"), private_key=Path("k")))
