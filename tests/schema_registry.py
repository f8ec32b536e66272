"""A fake schema registry over HTTP with configurable responses."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.loopback_http import QuietHandler, served


class FakeRegistry:
    """`responses`: JSON or raw bytes by path; other paths respond with 404."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.requests: list[tuple[str, str | None]] = []
        """Path and `Authorization` header of each request."""
        self.address = ""
        self.trouble: int | None = None
        """The status of all responses, if set."""
        self.pause_s = 0.0
        """The delay before each response."""


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            registry.requests.append((self.path, self.headers.get("Authorization")))
            time.sleep(registry.pause_s)
            response = registry.responses.get(self.path)
            if response is None:
                response = {"error_code": 40403, "message": "Schema not found"}
                status = 404
            else:
                status = 200
            body = response if isinstance(response, bytes) else json.dumps(response).encode()
            self.respond(registry.trouble or status, body)

    with served(Handler) as registry.address:
        yield registry
