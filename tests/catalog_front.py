"""A proxy in front of a REST catalog: requires a token, and drops commits or their responses."""

import http.client
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final
from urllib.parse import parse_qs

from tests.loopback_http import QuietHandler, served

_COMMIT: Final = re.compile(r"/v1/namespaces/[^/]+/tables/[^/]+$")
_TOKENS: Final = "/v1/oauth/tokens"


class Fault(Enum):
    """A fault of one commit."""

    UNHEARD = "the connection ends before the catalog receives the commit"
    RESPONSE_LOST = "the commit is applied, and the connection ends without a response"
    ERROR_AFTER = "the commit is applied, and a gateway responds with an error"
    UNAVAILABLE = "the commit is not applied, and the response is 503"
    LATE = "the connection ends, and `deliver_late` applies the commit"


class CatalogFront:
    def __init__(self, port: int) -> None:
        self._port: Final = port
        self.address = ""
        self.token: str | None = None
        """Requests without this token are rejected."""
        self.credential: str | None = None
        """CLIENT:SECRET, for which the catalog returns its token."""
        self.faults: list[Fault] = []
        """The faults of the next commits."""
        self.before_commit: Callable[[], None] = lambda: None
        self.after_commit: Callable[[], None] = lambda: None
        self.commits = 0
        self._late: list[Callable[[], None]] = []

    def refusal(self, path: str, body: bytes, authorization: str | None) -> dict[str, Any] | None:
        """The error of an unauthorized request. It repeats the credentials, as a careless server does."""
        if path.startswith(_TOKENS) and self.credential is not None:
            form = parse_qs(body.decode())
            given = f"{form['client_id'][0]}:{form['client_secret'][0]}"
            if given != self.credential:
                return {"error": "invalid_client", "error_description": f"unknown client {given}"}
        elif self.token is not None and authorization != f"Bearer {self.token}":
            message = f"{authorization} is not known"
            return {"error": {"message": message, "type": "NotAuthorizedException", "code": 401}}
        return None

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def commit(self, forward: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes] | None:
        """Return the response, or None to close the connection without one."""
        self.commits += 1
        # Take the fault first, because `before_commit` may cause the next commit.
        fault = self.faults.pop(0) if self.faults else None
        self.before_commit()
        match fault:
            case Fault.UNHEARD:
                return None
            case Fault.UNAVAILABLE:
                error = {"message": "later", "type": "ServiceUnavailableException", "code": 503}
                return 503, json.dumps({"error": error}).encode()
            case Fault.LATE:
                self._late.append(forward)
                return None
        response = forward()
        self.after_commit()
        if fault is Fault.ERROR_AFTER:
            return 502, b"<html>Bad Gateway</html>"
        return None if fault is Fault.RESPONSE_LOST else response

    def deliver_late(self) -> list[int]:
        """Forward the late commits and return their statuses."""
        late, self._late = self._late, []
        return [forward()[0] for forward in late]


@contextmanager
def catalog_front(port: int) -> Iterator[CatalogFront]:
    front = CatalogFront(port)

    class Handler(QuietHandler):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            refused = front.refusal(self.path, body, self.headers.get("Authorization"))
            if refused is not None:
                self.respond(401, json.dumps(refused).encode())
                return
            kept = {name: value for name, value in self.headers.items() if name in ("Content-Type", "Content-type")}

            def forward() -> tuple[int, bytes]:
                return front.forward(self.command, self.path, body, kept)

            is_commit = self.command == "POST" and _COMMIT.search(self.path) is not None
            response = front.commit(forward) if is_commit else forward()
            if response is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.respond(*response)

        do_GET = do_POST = do_HEAD = do_DELETE = _pass

    with served(Handler) as address:
        front.address = f"http://{address}"
        yield front
