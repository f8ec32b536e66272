"""The keys that verify tokens: where they are read, and when again."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from odradek.base.ports import Pool
from odradek.host.clock import SystemClock
from odradek.server import jwks
from odradek.server.jwks import JWKS_BYTES_MAX, TokenVerifier, read_source
from odradek.wire.sasl.oauth import InvalidToken
from odradek.wire.sasl.tokens import TokenRules, UnknownKey

T = TypeVar("T")
RULES = TokenRules(None, (), 30, "sub", "scope")


def new_key(name: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": name})


def key_set(*keys: ECKey) -> bytes:
    return json.dumps(KeySet(list(keys)).as_dict(private=False)).encode()


def token(key: ECKey) -> str:
    now = int(time.time())
    return jwt.encode({"alg": "ES256", "kid": key.kid}, {"sub": "alice", "iat": now, "exp": now + 60}, key)


class Source:
    """A document that changes, or cannot be read."""

    def __init__(self, content: bytes) -> None:
        self.content: bytes | OSError = content
        self.readings = 0

    def read(self, url: str) -> bytes:
        self.readings += 1
        if isinstance(self.content, OSError):
            raise self.content
        return self.content


class OwnThread:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


def verifier(source: Source, refresh_seconds: float = 3600.0) -> TokenVerifier:
    return TokenVerifier(
        "https://issuer/keys",
        RULES,
        refresh_seconds=refresh_seconds,
        clock=SystemClock(),
        executor=OwnThread(),
        read=source.read,
    )


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


ONE, TWO = new_key("one"), new_key("two")


def test_tokens_are_rejected_until_the_keys_are_read() -> None:
    async def scenario() -> None:
        one = verifier(Source(key_set(ONE)))
        with pytest.raises(InvalidToken, match="no keys"):
            one.verify(token(ONE))
        assert await one.refresh()
        assert one.verify(token(ONE)).subject == "alice"

    run(scenario)


def test_old_keys_remain_while_the_source_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        source = Source(key_set(ONE))
        one = verifier(source)
        await one.refresh()
        for content in (OSError(111, "Connection refused"), b"{}", b'{"keys": []}'):
            source.content = content
            assert not await one.refresh()
            assert one.verify(token(ONE)).subject == "alice"
        assert "Connection refused" in caplog.text

    run(scenario)


def test_unknown_key_makes_the_keys_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "RETRY_SECONDS", 0.05)

    async def scenario() -> None:
        source = Source(key_set(ONE))
        one = verifier(source)
        task = asyncio.ensure_future(one.keep_fresh())
        await asyncio.sleep(0.02)
        source.content = key_set(ONE, TWO)
        for _ in range(50):
            with pytest.raises(UnknownKey):
                one.verify(token(TWO))
        await asyncio.sleep(0.2)
        assert one.verify(token(TWO)).subject == "alice"
        # Not once per token.
        assert source.readings == 2
        task.cancel()

    run(scenario)


def test_keys_are_read_at_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "RETRY_SECONDS", 0.01)

    async def scenario() -> None:
        source = Source(key_set(ONE))
        task = asyncio.ensure_future(verifier(source, refresh_seconds=0.03).keep_fresh())
        async with asyncio.timeout(10):
            while source.readings < 3:
                await asyncio.sleep(0.01)
        task.cancel()

    run(scenario)


@contextmanager
def served(status: int, body: bytes, **headers: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        server.server_close()


def test_sources_are_files_and_urls(tmp_path: Path) -> None:
    file = tmp_path / "k ey.json"
    file.write_bytes(b"content")
    assert read_source(file.as_uri()) == b"content"
    with served(200, b"content") as url:
        assert read_source(url) == b"content"
    with pytest.raises(OSError):
        read_source(url)


def test_large_documents_redirects_and_errors_are_refused(tmp_path: Path) -> None:
    with served(200, bytes(JWKS_BYTES_MAX + 1)) as url, pytest.raises(ValueError, match="more than"):
        read_source(url)
    large = tmp_path / "large"
    large.write_bytes(bytes(JWKS_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="more than"):
        read_source(large.as_uri())
    with served(200, b"elsewhere") as there, served(302, b"", Location=there) as url, pytest.raises(OSError):
        read_source(url)
    with served(500, b"") as url, pytest.raises(OSError):
        read_source(url)
