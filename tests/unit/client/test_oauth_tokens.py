"""Tokens of a client: from a file or from a token endpoint, with errors that contain no secret."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from odradek.client import oauth_tokens
from odradek.client.oauth_tokens import find_token
from odradek.wire.sasl.exchange import SaslError


class Endpoint:
    """Issues numbered tokens."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, list[str]], str]] = []
        self.status = 200
        self.response: Any = None
        self.url = ""

    def respond(self, form: dict[str, list[str]], authorization: str) -> tuple[int, bytes]:
        self.requests.append((form, base64.b64decode(authorization.removeprefix("Basic ")).decode()))
        default = {"access_token": f"token-{len(self.requests)}", "expires_in": 300, "token_type": "Bearer"}
        return self.status, json.dumps(default if self.response is None else self.response).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, data = found.respond(parse_qs(body), self.headers["Authorization"])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", found.url)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    oauth_tokens._cached.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_token_of_an_endpoint_is_used_again(endpoint: Endpoint) -> None:
    assert find_token(endpoint.url, "ann", "s:cret", "kafka read") == "token-1"
    assert find_token(endpoint.url, "ann", "s:cret", "kafka read") == "token-1"
    assert find_token(endpoint.url, "bob", "s:cret") == "token-2"
    assert endpoint.requests == [
        ({"grant_type": ["client_credentials"], "scope": ["kafka read"]}, "ann:s:cret"),
        ({"grant_type": ["client_credentials"]}, "bob:s:cret"),
    ]


def test_token_without_a_lifetime_is_not_used_again(endpoint: Endpoint) -> None:
    endpoint.response = {"access_token": "abc"}
    for _ in range(2):
        assert find_token(endpoint.url, "ann", "secret") == "abc"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("status", "response", "said"),
    [
        (401, {}, "HTTP status 401. Check the client ID and secret"),
        (302, {}, "HTTP status 302"),
        (200, {}, "has no access_token"),
        (200, [], "has no access_token"),
        (200, {"access_token": "hidden\x01auth=other"}, "contains no bearer token"),
    ],
)
def test_errors_contain_no_secret(endpoint: Endpoint, status: int, response: Any, said: str) -> None:
    endpoint.status, endpoint.response = status, response
    with pytest.raises(SaslError, match=said) as refused:
        find_token(f"{endpoint.url}?key=hidden", "ann", "hidden")
    assert "hidden" not in str(refused.value)
    assert len(endpoint.requests) == 1


def test_endpoint_that_is_not_there(endpoint: Endpoint) -> None:
    with pytest.raises(SaslError, match=r"cannot request a token from http://127.0.0.1:1/token: .*refused"):
        find_token("http://127.0.0.1:1/token", "ann", "secret")


def test_token_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(SaslError, match=r"cannot read the token from .*: No such file"):
        find_token(file.as_uri())
    file.write_text("abc.def-_\n")
    assert find_token(file.as_uri()) == "abc.def-_"
    file.write_text("two words")
    with pytest.raises(SaslError, match="contains no bearer token"):
        find_token(file.as_uri())
