"""HTTP connections: requests that two parsers may understand differently are never followed by another request."""

import asyncio
from typing import Any

import pytest

from odradek.observe.http_exchange import HttpExchange, Request, Response, text_response

NEXT = b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n"


class Written:
    """A client that reads everything."""

    def __init__(self) -> None:
        self.data = b""

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return


def exchange(sent: bytes) -> tuple[bytes, list[str]]:
    """What a client receives, and the paths of the requests that are handled."""
    paths: list[str] = []

    async def respond(request: Request) -> Response:
        paths.append(request.path)
        return text_response(200, request.path)

    async def main() -> bytes:
        reader, writer = asyncio.StreamReader(), Written()
        reader.feed_data(sent)
        reader.feed_eof()
        anything: Any = writer
        await HttpExchange(reader, anything, respond).run()
        return writer.data

    return asyncio.run(main()), paths


def test_requests_without_bodies_follow_each_other() -> None:
    _, paths = exchange(b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + NEXT)
    assert paths == ["/first", "/second"]


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcxx0\r\n\r\n", b"413"),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"501"),
        (b"Content-Length: 5\r\n\r\nhello", b"413"),
        (b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n", b"400"),
    ],
)
def test_request_with_a_body_ends_the_connection(rest: bytes, status: bytes) -> None:
    received, paths = exchange(b"POST /first HTTP/1.1\r\nHost: x\r\n" + rest + NEXT)
    assert received.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nConnection: close\r\n" in received
    assert paths == []
