import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from odradek.client.address import Address
from odradek.console.access import USER, Access
from odradek.console.settings import Settings, check_exposure, is_loopback, read_password
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("nicegui")


def settings(**more: Any) -> Settings:
    given = {"bootstrap": (Address("a", 1),), "host": "127.0.0.1", "port": 0, "audit_log": Path("audit")} | more
    return Settings(**given)


class Served:
    """Runs `Access` around an app that records who made each admitted request."""

    def __init__(self, console_settings: Settings) -> None:
        self.user: list[str] = []
        self.access = Access(self._inside, console_settings)

    async def _inside(self, scope: Any, receive: Any, send: Any) -> None:
        self.user.append(scope[USER])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})

    def call(
        self, path: str, *, method: str = "GET", kind: str = "http", body: bytes = b"", **headers: str
    ) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        given = {"host": "127.0.0.1:8080"} | headers
        path, _, query = path.partition("?")
        scope = {
            "type": kind,
            "path": path,
            "query_string": query.encode(),
            "method": method,
            "client": ("10.0.0.9", 1),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.access(scope, receive, send))
        return sent


def header(sent: list[dict[str, Any]], name: str) -> str:
    return str(dict(sent[0]["headers"])[name.encode()].decode())


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, "--password-file or --oidc-issuer and --tls-certificate and --tls-key"),
        ({"password": "secret12"}, "--tls-certificate and --tls-key"),
        ({"certificate": Path("c"), "private_key": Path("k")}, "--password-file or --oidc-issuer"),
    ],
)
def test_other_computers_are_served_only_with_password_and_tls(more: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError) as refused:
        check_exposure(settings(host="0.0.0.0", **more))
    assert f"add {named}, or omit --host" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_loopback_or_password_with_tls_is_accepted() -> None:
    check_exposure(settings())
    check_exposure(settings(host="0.0.0.0", password="secret12", certificate=Path("c"), private_key=Path("k")))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.9", True), ("[::1]", True), ("10.1.1.1", False), ("localhost.evil.com", False)],
)
def test_loopback_hosts_are_recognized(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_short_password_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("1234567\n")
    with pytest.raises(UserError, match="at least 8 characters"):
        read_password(tmp_path / "short")


def test_requests_with_foreign_host_or_origin_are_rejected() -> None:
    served = Served(settings())
    assert served.call("/", host="rebound.example:8080")[0]["status"] == 403
    assert served.call("/", origin="https://evil.example")[0]["status"] == 403
    assert served.call("/", kind="websocket", origin="https://evil.example")[0]["type"] == "websocket.close"
    assert served.user == []
    assert served.call("/", origin="http://127.0.0.1:8080")[0]["status"] == 200
    assert served.user == ["10.0.0.9"]


def test_responses_forbid_framing() -> None:
    sent = Served(settings()).call("/")
    assert "frame-ancestors 'none'" in header(sent, "content-security-policy")


def test_password_login_starts_a_session_under_the_entered_name() -> None:
    served = Served(settings(password="secret12"))
    redirected = served.call("/topics?page=2")
    assert (redirected[0]["status"], header(redirected, "location")) == (303, "/login?next=%2Ftopics%3Fpage%3D2")
    assert served.call("/socket", kind="websocket")[0]["type"] == "websocket.close"
    wrong = served.call("/login", method="POST", body=urlencode({"name": "Odd", "password": "no"}).encode())
    assert wrong[0]["status"] == 403
    assert b"Wrong password" in wrong[1]["body"]
    form = urlencode({"name": "Odd", "password": "secret12", "next": "/topics"}).encode()
    right = served.call("/login", method="POST", body=form)
    assert (right[0]["status"], header(right, "location")) == (303, "/topics")
    cookie = header(right, "set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert served.call("/topics", cookie=cookie.split(";")[0])[0]["status"] == 200
    assert served.user == ["Odd (10.0.0.9)"]


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nx: y"])
def test_login_never_redirects_to_another_site(target: str) -> None:
    served = Served(settings(password="secret12"))
    form = urlencode({"name": "Odd", "password": "secret12", "next": target}).encode()
    assert header(served.call("/login", method="POST", body=form), "location") == "/"


def test_login_form_escapes_markup() -> None:
    shown = Served(settings(password="secret12")).call("/login?next=/%22%3E%3Cscript%3E")[1]["body"]
    assert b"<script>" not in shown
