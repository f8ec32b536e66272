"""A schema registry that says what it is told to, over HTTP."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.loopback_http import QuietHandler, served


class FakeRegistry:
    """`answers`: what there is at each path; JSON, or bytes as they are. Of others it says that it has none."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Paths, and who asked by `Authorization`."""
        self.address = ""
        self.trouble: int | None = None
        """The status of all its answers, if it has any."""
        self.pause_s = 0.0
        """Before each answer."""


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, self.headers.get("Authorization")))
            time.sleep(registry.pause_s)
            answer = registry.answers.get(self.path)
            if answer is None:
                answer = {"error_code": 40403, "message": "Schema not found"}
                status = 404
            else:
                status = 200
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.answer(registry.trouble or status, body)

    with served(Handler) as registry.address:
        yield registry
