"""HTTP requests to services: paths, queries and credentials."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from odradek.base.ports import Pool
from odradek.observe.endpoint import Call, HttpEndpoint, Reply
from odradek.observe.http_exchange import Request, Response

T = TypeVar("T")


class Inline:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


def respond(request: Request) -> Response:
    node: Any = None
    endpoint = HttpEndpoint(node, Inline())

    async def reply(call: Call) -> Reply:
        return Reply(202, call._asdict())

    endpoint.serve("leases", reply)
    return asyncio.run(endpoint.respond(request))


def call(request: Request) -> dict[str, Any]:
    found = respond(request)
    assert found.status == 202
    body: dict[str, Any] = json.loads(found.body)
    return body


def test_http_paths_and_queries() -> None:
    assert call(Request("POST", "/v1/leases", "topic=a%20b&start=1&start=2")) == {
        "method": "POST",
        "below": "",
        "query": {"topic": "a b", "start": "2"},
        "basic": None,
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
    assert call(Request("GET", "/v1/leases", "", f"basic {authorization}"))["basic"] == basic
    assert call(Request("GET", "/v1/leases", "", f"Bearer {authorization}"))["basic"] is None
