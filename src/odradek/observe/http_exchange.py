"""HTTP/1.1 as far as this endpoint speaks it, on one connection: small requests without a body, one after the other.

h11 does the parsing; here are the limits on it. It is imported with the first connection: nodes that nobody asks need
not know HTTP.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import h11

logger = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 8192
REQUEST_SECONDS_MAX: Final = 5.0
"""From its first byte to its last."""
IDLE_SECONDS_MAX: Final = 120.0
"""Between requests: scrapers come back every minute or so."""
ANSWER_SECONDS_MAX: Final = 30.0
"""To make an answer, and again to take it."""
_READ_BYTES: Final = 4096
_TEXT: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def text_answer(status: int, text: str, *headers: tuple[str, str]) -> Answer:
    return Answer(status, _TEXT, f"{text}\n".encode(), headers)


class Request(NamedTuple):
    method: str
    path: str
    query: str = ""
    authorization: str | None = None


Respond = Callable[[Request], Awaitable[Answer]]


class HttpExchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
        self._reader: Final = reader
        self._writer: Final = writer
        self._respond: Final = respond
        self._http: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self.is_answering = False
        """Whether a request is complete that has no answer yet: else nobody minds if the connection ends."""

    async def run(self) -> None:
        """Until one of both has enough."""
        try:
            while await self._exchange_once():
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint, str(error))
        except (TimeoutError, ConnectionError):
            # Too slow, or gone: nothing is owed to it.
            return

    async def _exchange_once(self) -> bool:
        """Whether another may follow."""
        request = await self._next_request()
        if request is None:
            return False
        self.is_answering = True
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await self._answer(request)
        await self._send(answer, with_body=request.method != b"HEAD")
        self.is_answering = False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _next_request(self) -> h11.Request | None:
        """None: the client has hung up."""
        if not self._http.trailing_data[0]:
            async with asyncio.timeout(IDLE_SECONDS_MAX):
                if not await self._receive():
                    return None
        request: h11.Request | None = None
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    if not await self._receive():
                        return None
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    raise h11.RemoteProtocolError("a request with a body", error_status_hint=413)
                elif isinstance(event, h11.EndOfMessage):
                    return request
                else:
                    return None

    async def _receive(self) -> bool:
        data = await self._reader.read(_READ_BYTES)
        self._http.receive_data(data)
        return bool(data)

    async def _answer(self, request: h11.Request) -> Answer:
        path, _, query = request.target.decode("ascii", errors="replace").partition("?")
        authorization = next((value for name, value in request.headers if name == b"authorization"), None)
        asked = Request(
            request.method.decode("ascii", errors="replace"),
            path,
            query,
            None if authorization is None else authorization.decode("latin-1"),
        )
        try:
            return await self._respond(asked)
        except Exception:
            logger.exception("%s could not be answered", path)
            return text_answer(500, "an internal error: see the node's log")

    async def _refuse(self, status: int, reason: str) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._send(text_answer(status, reason), with_body=True)

    async def _send(self, answer: Answer, *, with_body: bool) -> None:
        headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))), *answer.headers]
        if self._http.their_state is h11.ERROR or self._http.our_state is h11.MUST_CLOSE:
            headers.append(("Connection", "close"))
        parts = [self._http.send(h11.Response(status_code=answer.status, headers=headers))]
        if with_body:
            parts.append(self._http.send(h11.Data(data=answer.body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await self._writer.drain()
