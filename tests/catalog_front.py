"""What stands before a REST catalog: asks for a token, and lets commits and their answers get lost."""

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
    """Of a commit."""

    UNHEARD = "the connection ends before the catalog has heard of it"
    ANSWER_LOST = "it is done, and the connection ends without an answer"
    ERROR_AFTER = "it is done, and the answer is an error of a server on the way"
    UNAVAILABLE = "it is not done, since there is no time for it now"
    LATE = "the connection ends, and it is done when `deliver_late` says so"


class CatalogFront:
    def __init__(self, port: int) -> None:
        self._port: Final = port
        self.address = ""
        self.token: str | None = None
        """Who does not have it is refused."""
        self.credential: str | None = None
        """CLIENT:SECRET, which the catalog's token is given for."""
        self.faults: list[Fault] = []
        """Of the next commits."""
        self.before_commit: Callable[[], None] = lambda: None
        self.after_commit: Callable[[], None] = lambda: None
        self.commits = 0
        self._late: list[Callable[[], None]] = []

    def refusal(self, path: str, body: bytes, authorization: str | None) -> dict[str, Any] | None:
        """What is said to who may not ask. It repeats what was sent, as a careless server does."""
        if path.startswith(_TOKENS) and self.credential is not None:
            form = parse_qs(body.decode())
            given = f"{form['client_id'][0]}:{form['client_secret'][0]}"
            if given != self.credential:
                return {"error": "invalid_client", "error_description": f"nobody is {given}"}
        elif self.token is not None and authorization != f"Bearer {self.token}":
            message = f"{authorization} is not known"
            return {"error": {"message": message, "type": "NotAuthorizedException", "code": 401}}
        return None

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def commit(self, ask: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes] | None:
        """The answer, or None if there is none."""
        self.commits += 1
        # First: who is told of it may bring the next one.
        fault = self.faults.pop(0) if self.faults else None
        self.before_commit()
        match fault:
            case Fault.UNHEARD:
                return None
            case Fault.UNAVAILABLE:
                error = {"message": "later", "type": "ServiceUnavailableException", "code": 503}
                return 503, json.dumps({"error": error}).encode()
            case Fault.LATE:
                self._late.append(ask)
                return None
        answer = ask()
        self.after_commit()
        if fault is Fault.ERROR_AFTER:
            return 502, b"<html>Bad Gateway</html>"
        return None if fault is Fault.ANSWER_LOST else answer

    def deliver_late(self) -> list[int]:
        """The statuses that nobody waits for any more."""
        late, self._late = self._late, []
        return [ask()[0] for ask in late]


@contextmanager
def catalog_front(port: int) -> Iterator[CatalogFront]:
    front = CatalogFront(port)

    class Handler(QuietHandler):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            refused = front.refusal(self.path, body, self.headers.get("Authorization"))
            if refused is not None:
                self.answer(401, json.dumps(refused).encode())
                return
            kept = {name: value for name, value in self.headers.items() if name in ("Content-Type", "Content-type")}

            def ask() -> tuple[int, bytes]:
                return front.forward(self.command, self.path, body, kept)

            is_commit = self.command == "POST" and _COMMIT.search(self.path) is not None
            answer = front.commit(ask) if is_commit else ask()
            if answer is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.answer(*answer)

        do_GET = do_POST = do_HEAD = do_DELETE = _pass

    with served(Handler) as address:
        front.address = f"http://{address}"
        yield front
