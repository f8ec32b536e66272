"""Authentication for every HTTP request and WebSocket connection of the console.

Without a password, the console serves only this machine and only under its own host name, which defeats DNS rebinding.
With a password, every request needs a session cookie.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.console.readings.table import inert
from odradek.console.settings import OidcSettings, Settings, is_loopback

if TYPE_CHECKING:
    from odradek.console.oidc import Oidc

COOKIE: Final = "odradek-console"
SESSION_S: Final = 12 * 3600
SESSIONS_MAX: Final = 1000
USER: Final = "odradek.user"

_LOGIN_COOKIE: Final = "odradek-console-login"
_WRONG_PAUSE_S: Final = 0.5
_WAITING_MAX: Final = 20
_FORM_BYTES_MAX: Final = 4096
# Pages compile templates in the browser, so the policy must allow inline scripts and eval; it forbids other hosts.
_HEADERS: Final = {
    "content-security-policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:;"
    " frame-ancestors 'none'; form-action 'self'; base-uri 'self'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class _Session:
    name: str
    until_s: float


class Access:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app: Final = app
        self._settings: Final = settings
        self._sessions: Final[dict[str, _Session]] = {}
        self._checking: Final = asyncio.Lock()
        self._waiting = 0
        self._oidc: Final = None if settings.oidc is None else _oidc(settings.oidc)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = scope["client"][0] if scope.get("client") else "?"
        if not self._is_own_name(headers):
            await _refuse(
                scope, send, 403, "The console is not available under this host name. Open it by its own address."
            )
            return
        user = address
        if self._settings.password is not None or self._oidc is not None:
            if scope["type"] == "http" and scope["path"] in ("/login", "/login/callback"):
                await self._enter(scope, receive, send, headers.get("cookie", ""))
                return
            session = self._session(headers.get("cookie", ""))
            if session is None:
                await self._request_login(scope, send)
                return
            user = f"{session.name} ({address})"
        scope[USER] = user
        await self.app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)

    def _is_own_name(self, headers: Mapping[str, str]) -> bool:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return False
        name = urlsplit(f"//{host}").hostname or ""
        return is_loopback(name) if is_loopback(self._settings.host) else True

    def _session(self, cookies: str) -> _Session | None:
        for value in _cookies(cookies, COOKIE):
            if (found := self._sessions.get(value)) is not None:
                if found.until_s > time.monotonic():
                    return found
                del self._sessions[value]
        return None

    async def _enter(self, scope: Scope, receive: Receive, send: Send, cookies: str) -> None:
        if self._oidc is None:
            await self._login(scope, receive, send)
        elif scope["path"] == "/login":
            await self._begin_elsewhere(self._oidc, scope, send)
        else:
            await self._come_back(self._oidc, scope, send, cookies)

    async def _begin_elsewhere(self, oidc: "Oidc", scope: Scope, send: Send) -> None:
        from odradek.console.oidc import CALLBACK, LoginDenied

        there = _path_within(_first(scope.get("query_string", b"").decode("latin-1"), "next"))
        try:
            location, binding = await oidc.begin(there)
        except LoginDenied as error:
            await _respond(send, 502, _login_denied_page(str(error)))
            return
        secure = "; Secure" if self._settings.is_encrypted else ""
        # Lax: the provider sends the browser back from another site.
        cookie = f"{_LOGIN_COOKIE}={binding}; Path={CALLBACK}; HttpOnly; SameSite=Lax; Max-Age=600{secure}"
        await _respond(send, 303, b"", location=location, cookie=cookie)

    async def _come_back(self, oidc: "Oidc", scope: Scope, send: Send, cookies: str) -> None:
        from odradek.console.oidc import LoginDenied

        binding = next(iter(_cookies(cookies, _LOGIN_COOKIE)), "")
        try:
            name, there = await oidc.finish(scope.get("query_string", b"").decode("latin-1"), binding)
        except LoginDenied as error:
            await _respond(send, 403, _login_denied_page(str(error)))
            return
        # Browsers do not send the session cookie on a redirect that another site started, so a page of the console
        # continues the navigation.
        await _respond(send, 200, _onward(there), cookie=self._begin_session(name))

    async def _request_login(self, scope: Scope, send: Send) -> None:
        if scope["type"] == "websocket":
            await _refuse(scope, send, 403, "Log in first.")
            return
        query = scope.get("query_string", b"").decode("latin-1")
        there = scope["path"] + (f"?{query}" if query else "")
        await _respond(send, 303, b"", location=f"/login?next={quote(there, safe='')}")

    async def _login(self, scope: Scope, receive: Receive, send: Send) -> None:
        there = _path_within(_first(scope.get("query_string", b"").decode("latin-1"), "next"))
        if scope["method"] != "POST":
            await _respond(send, 200, _form(there, ""))
            return
        form = await _read_form(receive)
        there = _path_within(_first(form, "next"))
        if self._waiting >= _WAITING_MAX:
            await _respond(send, 429, _form(there, "Too many login attempts. Try again in a few seconds."))
            return
        name = inert(_first(form, "name").strip())[:64]
        if not name:
            await _respond(send, 400, _form(there, "Enter your name. It is recorded in the audit log."))
        elif not await self._is_right(_first(form, "password")):
            await _respond(send, 403, _form(there, "Wrong password."))
        else:
            await _respond(send, 303, b"", location=there, cookie=self._begin_session(name))

    async def _is_right(self, given: str) -> bool:
        """Checks one password at a time and delays after a wrong one, so that guessing is impractical."""
        expected = self._settings.password or ""
        self._waiting += 1
        try:
            async with self._checking:
                if hmac.compare_digest(given.encode(), expected.encode()):
                    return True
                await asyncio.sleep(_WRONG_PAUSE_S)
                return False
        finally:
            self._waiting -= 1

    def _begin_session(self, name: str) -> str:
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(32)
        self._sessions[token] = _Session(name, time.monotonic() + SESSION_S)
        secure = "; Secure" if self._settings.is_encrypted else ""
        return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_S}{secure}"


def _oidc(settings: OidcSettings) -> "Oidc":
    """Imported on demand because it loads cryptography."""
    from odradek.console.oidc import Oidc

    return Oidc(settings)


def _cookies(text: str, wanted: str) -> list[str]:
    found = []
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            found.append(value)
    return found


def _onward(there: str) -> bytes:
    return _bare_page("Logged in", f'<p>Logged in. <a href="{escape(there)}">Continue</a></p>', there)


def _login_denied_page(why: str) -> bytes:
    return _bare_page("Not logged in", f'<p role="alert">{escape(why)}</p><p><a href="/login">Log in again</a></p>')


def _bare_page(title: str, body: str, goes_to: str | None = None) -> bytes:
    goes = "" if goes_to is None else f'<meta http-equiv="refresh" content="0;url={escape(goes_to)}">'
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Odradek</title>{goes}
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body {{ font: 16px system-ui, sans-serif; color-scheme: light dark; margin: 0 }}
main {{ max-width: 22rem; margin: 15vh auto; padding: 1rem }}
</style></head><body><main><h1>Odradek</h1>{body}</main></body></html>""".encode()


def _path_within(text: str) -> str:
    """Returns a path on this site, never the address of another site."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() else "/"


def _first(form: str, name: str) -> str:
    found: list[str] = parse_qs(form, keep_blank_values=True).get(name, [""])
    return found[0]


async def _read_form(receive: Receive) -> str:
    body = bytearray()
    while len(body) <= _FORM_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body.decode(errors="replace")
    return ""


def _form(there: str, problem: str) -> bytes:
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in · Odradek</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body {{ font: 16px system-ui, sans-serif; color-scheme: light dark; margin: 0 }}
main {{ max-width: 22rem; margin: 15vh auto; padding: 1rem }}
label {{ display: block; margin-top: 1rem }}
input, button {{ font: inherit; width: 100%; box-sizing: border-box; padding: .6rem; margin-top: .3rem }}
</style></head><body><main><h1>Odradek</h1>{alert}<form method="post" action="/login">
<input type="hidden" name="next" value="{escape(there)}">
<label>Your name<input name="name" autocomplete="username" required maxlength="64"></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button type="submit">Log in</button></form></main></body></html>""".encode()


async def _refuse(scope: Scope, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    await _respond(send, status, reason.encode(), kind="text/plain; charset=utf-8")


async def _respond(
    send: Send, status: int, body: bytes, *, kind: str = "text/html; charset=utf-8", **more: str
) -> None:
    headers = {"content-type": kind, "cache-control": "no-store", **_HEADERS}
    if "location" in more:
        headers["location"] = more["location"]
    if "cookie" in more:
        headers["set-cookie"] = more["cookie"]
    raw = [(name.encode(), value.encode("latin-1", errors="replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added: list[Any] = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_with_headers
