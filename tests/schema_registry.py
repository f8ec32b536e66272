"""A schema registry that says what it is told to, over HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeRegistry:
    """`answers`: what there is at each path; JSON, or bytes as they are."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Paths, and who asked by `Authorization`."""
        self.address = ""


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, self.headers.get("Authorization")))
            answer = registry.answers.get(self.path)
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.address = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()
        yield registry
        server.shutdown()
