"""The public keys that verify tokens: read from a file or a URL, and read again while the node runs.

Reading takes place in a thread. Verification never waits for it: a token with an unknown key is rejected, and the keys
are read again soon, at most once in a while.
"""

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from odradek.base.ports import Clock, Executor
from odradek.wire.sasl.oauth import InvalidToken, VerifiedToken
from odradek.wire.sasl.tokens import Keys, TokenRules, UnknownKey, parse_keys, verify_token

logger = logging.getLogger(__name__)

JWKS_BYTES_MAX: Final = 1 << 20
TIMEOUT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 10.0
"""After a failure, and between two readings because of unknown keys."""
FILE_REFRESH_SECONDS_MAX: Final = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def read_source(url: str) -> bytes:
    """Blocks. Raises OSError, or ValueError for more than JWKS_BYTES_MAX."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with open(url2pathname(parts.path), "rb") as file:
            data = file.read(JWKS_BYTES_MAX + 1)
    else:
        # Not from the environment's proxies: urllib would send this node's requests through them.
        opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=TIMEOUT_SECONDS) as response:
            data = response.read(JWKS_BYTES_MAX + 1)
    if len(data) > JWKS_BYTES_MAX:
        raise ValueError(f"more than {JWKS_BYTES_MAX} bytes")
    return bytes(data)


class TokenVerifier:
    def __init__(
        self,
        url: str,
        rules: TokenRules,
        *,
        refresh_seconds: float,
        clock: Clock,
        executor: Executor,
        read: Callable[[str], bytes] = read_source,
    ) -> None:
        self._url: Final = url
        self._rules: Final = rules
        is_file = urlsplit(url).scheme == "file"
        self._refresh_seconds: Final = min(refresh_seconds, FILE_REFRESH_SECONDS_MAX) if is_file else refresh_seconds
        self._clock: Final = clock
        self._executor: Final = executor
        self._read: Final = read
        self._keys: Keys = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unknown_key: asyncio.Event = asyncio.Event()

    def verify(self, token: str) -> VerifiedToken:
        """Called in a thread. Raises InvalidToken."""
        if not self._keys:
            raise InvalidToken(f"no keys from {self._url}")
        try:
            return verify_token(token, self._keys, self._rules, self._clock.wall_ms() / 1000)
        except UnknownKey:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._unknown_key.set)
            raise

    async def refresh(self) -> bool:
        """Reads the keys; on a failure the old ones remain, and False is returned."""
        try:
            self._keys = await self._executor.run(lambda: parse_keys(self._read(self._url)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            logger.warning("Cannot read the keys of OAUTHBEARER from %s: %s", self._url, reason)
            return False
        return True

    async def keep_fresh(self) -> None:
        """Until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._unknown_key.clear()
            is_read = await self.refresh()
            await asyncio.sleep(RETRY_SECONDS if self._refresh_seconds > RETRY_SECONDS else self._refresh_seconds)
            if not is_read:
                continue
            try:
                async with asyncio.timeout(max(0.0, self._refresh_seconds - RETRY_SECONDS)):
                    await self._unknown_key.wait()
            except TimeoutError:
                continue
