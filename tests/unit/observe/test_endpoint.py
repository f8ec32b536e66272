"""HTTP requests to services: paths, queries and credentials."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from odradek.base.ports import Pool
from odradek.base.principal import Principal
from odradek.observe.endpoint import Call, HttpEndpoint, Reply
from odradek.observe.http_access import Authenticate, HttpSecurity
from odradek.observe.http_exchange import Request, Response

T = TypeVar("T")


class Inline:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


def respond(request: Request, authenticate: Authenticate | None = None) -> Response:
    node: Any = None
    security = HttpSecurity(has_authorizer=False)
    if authenticate is not None:
        security.authenticate = authenticate
    endpoint = HttpEndpoint(node, Inline(), security)

    async def reply(call: Call) -> Reply:
        return Reply(202, {**call._asdict(), "client": str(call.client.principal)})

    endpoint.serve("leases", reply)
    return asyncio.run(endpoint.respond(request))


def call(request: Request, authenticate: Authenticate | None = None) -> dict[str, Any]:
    found = respond(request, authenticate)
    assert found.status == 202
    body: dict[str, Any] = json.loads(found.body)
    return body


def test_http_paths_and_queries() -> None:
    assert call(Request("POST", "/v1/leases", "topic=a%20b&start=1&start=2")) == {
        "method": "POST",
        "below": "",
        "query": {"topic": "a b", "start": "2"},
        "client": "User:ANONYMOUS",
    }
    assert call(Request("DELETE", "/v1/leases/abc/d"))["below"] == "abc/d"
    assert call(Request("HEAD", "/v1/leases/", "&" * 10_000))["query"] == {}
    assert respond(Request("POST", "/v1/leasesabc")).status == 405
    assert respond(Request("GET", "/v1/leasesabc")).status == 404


@pytest.mark.parametrize(
    ("authorization", "basic"),
    [
        (b64encode(b"spark:a:b").decode(), ["spark", "a:b"]),
        (b64encode("ü:ü".encode()).decode(), ["ü", "ü"]),
        (b64encode(b"spark").decode(), None),
        (b64encode(b"\xff:\xff").decode(), None),
        ("%%%", None),
        ("", None),
    ],
)
def test_basic_credentials(authorization: str, basic: list[str] | None) -> None:
    found: list[list[str]] = []

    def authenticate(user: str, password: str) -> Principal:
        found.append([user, password])
        return Principal("User", user)

    name = "ANONYMOUS" if basic is None else basic[0]
    assert call(Request("GET", "/v1/leases", "", f"basic {authorization}"), authenticate)["client"] == f"User:{name}"
    assert found == ([] if basic is None else [basic])
    call(Request("GET", "/v1/leases", "", f"Bearer {authorization}"), authenticate)
    assert found == ([] if basic is None else [basic])


def test_requests_of_web_pages_change_nothing() -> None:
    """A browser on the broker's computer would send them, with the password that it has stored."""
    for method in ("POST", "DELETE", "PUT"):
        assert respond(Request(method, "/v1/leases", origin="https://hostile.example")).status == 403
        assert respond(Request(method, "/v1/leases", origin="null")).status == 403
    assert respond(Request("GET", "/v1/leases", origin="https://hostile.example")).status == 202
