"""A fake OpenID Connect provider over HTTP that authenticates every user with configurable claims."""

import hashlib
import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

CLIENT: Final = "odradek"
SECRET: Final = "se/cret-word"
CODE: Final = "the-code"


class Provider:
    def __init__(self, issuer: str) -> None:
        self.issuer: Final = issuer
        self.own_key: Final = ECKey.generate_key("P-256", {"kid": "one", "use": "sig", "alg": "ES256"})
        self.forget()

    def forget(self) -> None:
        self.signing_key = self.own_key
        self.refuses = False
        self.claims: dict[str, Any] = {}
        """Claims added to, or replacing, the default claims."""
        self._authorization: dict[str, str] = {}

    def authorize(self, query: str) -> str:
        """Return the redirect URL with the code."""
        self._authorization = {name: values[0] for name, values in parse_qs(query).items()}
        back = urlencode({"code": CODE, "state": self._authorization["state"]})
        return f"{self._authorization['redirect_uri']}?{back}"

    def respond(self, path: str, form: dict[str, list[str]], authorization: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
            return {"issuer": self.issuer} | {name: self.issuer + place for name, place in names.items()}
        if path == "/keys":
            return dict(KeySet([self.own_key]).as_dict(private=False))
        if path == "/token" and not self.refuses:
            return self._token(form, authorization)
        return None

    def _token(self, form: dict[str, list[str]], authorization: str) -> dict[str, Any] | None:
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        is_same = urlsafe_b64encode(digest).rstrip(b"=").decode() == self._authorization["code_challenge"]
        is_known = b64decode(authorization.removeprefix("Basic ")) == b"odradek:se%2Fcret-word"
        if not is_same or not is_known or form["code"] != [CODE]:
            return None
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "7",
            "exp": int(time.time()) + 300,
            "nonce": self._authorization["nonce"],
            "email": "Ann@example.org",
            "email_verified": True,
        } | self.claims
        return {"id_token": jwt.encode({"alg": "ES256", "kid": "one"}, claims, self.signing_key)}


@contextmanager
def oidc_provider(host: str = "127.0.0.1") -> Iterator[Provider]:
    """`host`: its host name; one that differs from the console's makes it another site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(parts.query))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            response = provider.respond(parts.path, parse_qs(body), self.headers.get("Authorization", ""))
            encoded = json.dumps(response).encode()
            self.send_response(400 if response is None else 200)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(f"http://{host}:{server.server_port}")
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()
        yield provider
        server.shutdown()
