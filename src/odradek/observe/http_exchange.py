"""One HTTP/1.1 connection: small requests without a body, one after the other.

h11 parses; this module adds the limits. It is imported with the first connection, to keep the start of a node short.
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
"""Between requests: Prometheus scrapes about every minute."""
RESPONSE_SECONDS_MAX: Final = 30.0
"""To build a response, and again to send it."""
_READ_BYTES: Final = 4096
_TEXT: Final = "text/plain; charset=utf-8"


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def text_response(status: int, text: str, *headers: tuple[str, str]) -> Response:
    return Response(status, _TEXT, f"{text}\n".encode(), headers)


class Request(NamedTuple):
    method: str
    path: str
    query: str = ""
    authorization: str | None = None
    peer_host: str = ""
    """The client's IP address."""
    origin: str | None = None
    """Of the web page that makes a browser send the request. Other clients have none."""


Respond = Callable[[Request], Awaitable[Response]]


class HttpExchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
        self._reader: Final = reader
        self._writer: Final = writer
        self._respond: Final = respond
        peer = writer.get_extra_info("peername")
        self._peer_host: Final[str] = peer[0] if peer else ""
        self._http: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self.is_responding = False
        """Whether a complete request waits for its response: otherwise the connection can be closed."""

    async def run(self) -> None:
        """Serves requests until one side closes the connection."""
        try:
            while await self._exchange_once():
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._reject(error.error_status_hint, str(error))
        except (TimeoutError, ConnectionError):
            # The client is too slow, or has closed the connection.
            return

    async def _exchange_once(self) -> bool:
        """Returns whether another request may follow."""
        request = await self._next_request()
        if request is None:
            return False
        self.is_responding = True
        async with asyncio.timeout(RESPONSE_SECONDS_MAX):
            response = await self._build_response(request)
        await self._send(response, with_body=request.method != b"HEAD")
        self.is_responding = False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _next_request(self) -> h11.Request | None:
        """None: the client has closed the connection."""
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
                    _check_length(event)
                    request = event
                elif isinstance(event, h11.EndOfMessage):
                    return request
                else:
                    return None

    async def _receive(self) -> bool:
        data = await self._reader.read(_READ_BYTES)
        self._http.receive_data(data)
        return bool(data)

    async def _build_response(self, request: h11.Request) -> Response:
        path, _, query = request.target.decode("ascii", errors="replace").partition("?")
        parsed = Request(
            request.method.decode("ascii", errors="replace"),
            path,
            query,
            _header(request, b"authorization"),
            self._peer_host,
            _header(request, b"origin"),
        )
        try:
            return await self._respond(parsed)
        except Exception:
            logger.exception("HTTP request for %s failed", path)
            return text_response(500, "internal error: see the log of the node")

    async def _reject(self, status: int, reason: str) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._send(text_response(status, reason), with_body=True, closes=True)

    async def _send(self, response: Response, *, with_body: bool, closes: bool = False) -> None:
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            *response.headers,
        ]
        if closes or self._http.our_state is h11.MUST_CLOSE:
            headers.append(("Connection", "close"))
        parts = [self._http.send(h11.Response(status_code=response.status, headers=headers))]
        if with_body:
            parts.append(self._http.send(h11.Data(data=response.body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(RESPONSE_SECONDS_MAX):
            await self._writer.drain()


def _check_length(request: h11.Request) -> None:
    """Raises RemoteProtocolError for a body, before a byte of it is read.

    A proxy in front of the node may find its end elsewhere, and take the rest for another client's request.
    """
    length = _header(request, b"content-length")
    if _header(request, b"transfer-encoding") is not None or (length is not None and int(length) > 0):
        raise h11.RemoteProtocolError("request bodies are not supported", error_status_hint=413)


def _header(request: h11.Request, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in request.headers if key == name), None)
