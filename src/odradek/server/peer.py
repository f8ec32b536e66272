"""Another node, as this one asks it: one connection, made when it is needed, its versions negotiated.

Several requests may be under way; the other side answers them in order. What fails says how, by the kind of PeerError.
Nothing is tried a second time here: only the caller knows whether its request may be repeated, and where.
"""

import asyncio
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kio.schema.index import api_key_map, schema_name_map

import odradek
from odradek.base.errors import ErrorCode
from odradek.server.connecting import PeerError, Place, Refused, Unreachable, open_connection
from odradek.server.peer_link import Disconnected, Overloaded, PeerLink, read_answer
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema

__all__ = [
    "Disconnected",
    "NotServed",
    "Overloaded",
    "Peer",
    "PeerError",
    "PeerTimedOut",
    "Refused",
    "Unreachable",
]

# Kafka's socket.connection.setup.timeout.ms and socket.request.max.bytes.
CONNECT_TIMEOUT_SECONDS: Final = 10.0
ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024

_ERROR_CODE: Final = struct.Struct(">h")

BuildRequest = Callable[[Schema], Message]
VersionRange = tuple[int, int]


class PeerTimedOut(PeerError):
    """No answer in time: what was asked may have been done, or not."""


class NotServed(PeerError):
    """It serves no version of the API that is known here."""


class Peer:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """`on_lost` is called when a connection that was ready ends, unless it was `close` that ended it."""
        self._place: Final = Place(host, port)
        self._client_id: Final = client_id.encode()
        self._connect_timeout_seconds: Final = connect_timeout_seconds
        self._answer_bytes_max: Final = answer_bytes_max
        self._on_lost: Final = on_lost
        self._link: PeerLink | None = None
        # The attempt to connect that is under way, shared by all who want it. It ends with the task.
        self._attempt: asyncio.Future[PeerLink] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.served: Mapping[int, VersionRange] = {}
        """The lowest and the highest version of each API that it serves, as of the last connection."""
        self.supported_features: Mapping[str, VersionRange] = {}

    @property
    def host(self) -> str:
        return self._place.host

    @property
    def port(self) -> int:
        return self._place.port

    @property
    def is_connected(self) -> bool:
        """Whether a request could be sent at once."""
        return self._link is not None

    async def connect(self) -> None:
        """Returns once there is a connection and its versions are known. Raises PeerError."""
        await self._connected()

    async def ask(
        self, api_key: int, build: BuildRequest, *, timeout_seconds: float, highest: int | None = None
    ) -> Message:
        """Builds the request in the newest version that both sides know, not above `highest`, and returns the answer.

        The time is for connecting, where that is necessary, and for the answer. When it is over the connection is
        closed: nobody could tell a late answer from the next one's, and requests behind it would wait as long.
        Raises PeerError, and what `build` raises.
        """
        link: PeerLink | None = None
        try:
            async with asyncio.timeout(timeout_seconds):
                link = await self._connected()
                chosen = self._agreed(api_key, highest)
                return await link.send(chosen, build(chosen))
        except TimeoutError:
            if link is not None:
                link.end("a request before was not answered in time")
            raise PeerTimedOut(self._place, f"no answer within {timeout_seconds:g} s") from None

    def close(self) -> None:
        """For good. Whoever waits for an answer gets Disconnected."""
        self._is_closed = True
        reason = "closed on this side"
        if self._attempt is not None:
            self._attempt.set_exception(Disconnected(self._place, reason))
            self._attempt = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._link is not None:
            self._link.end(reason)

    # Connecting

    async def _connected(self) -> PeerLink:
        if self._link is not None:
            return self._link
        if self._is_closed:
            raise Disconnected(self._place, "closed on this side")
        if self._attempt is None:
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_future()
            # Nobody may be waiting for it any more.
            self._attempt.add_done_callback(lambda attempt: attempt.exception())
            self._task = loop.create_task(self._attempt_to_connect(self._attempt))
        return await asyncio.shield(self._attempt)

    async def _attempt_to_connect(self, attempt: asyncio.Future[PeerLink]) -> None:
        try:
            link = await self._establish()
        except BaseException as error:
            # After `close` those who waited have been told.
            if not attempt.done():
                self._attempt = self._task = None
                given_up = isinstance(error, asyncio.CancelledError)
                attempt.set_exception(Disconnected(self._place, "given up") if given_up else error)
            if not isinstance(error, PeerError):
                raise
        else:
            self._attempt = self._task = None
            self._link = link
            attempt.set_result(link)

    async def _establish(self) -> PeerLink:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        _, link = await open_connection(self._new_link, self._place, self._connect_timeout_seconds)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._negotiate(link)
        except TimeoutError:
            link.end("it did not name its versions in time")
            within = f"within {self._connect_timeout_seconds:g} s"
            raise PeerTimedOut(self._place, f"it is there, but did not name its versions {within}") from None
        except BaseException:
            link.end("given up before it was ready")
            raise
        if not link.is_open:
            raise Disconnected(self._place, "it closed the connection as soon as it was made")
        self.served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        self.supported_features = {
            one.name: (one.min_version, one.max_version) for one in getattr(response, "supported_features", ())
        }
        return link

    def _new_link(self) -> PeerLink:
        return PeerLink(self._place, self._client_id, self._answer_bytes_max, self._link_ended)

    def _link_ended(self, link: PeerLink) -> None:
        if link is self._link:
            self._link = None
            if self._on_lost is not None and not self._is_closed:
                self._on_lost()

    async def _negotiate(self, link: PeerLink) -> Message:
        """Asks with the newest version; who does not know it answers in version 0, and names the one to ask with."""
        version = max(schema_name_map[api_key_map[ApiKey.API_VERSIONS]])
        response = await self._ask_for_versions(link, version)
        if response.error_code is ErrorCode.unsupported_version:
            known = (one.max_version for one in response.api_keys if one.api_key == ApiKey.API_VERSIONS)
            response = await self._ask_for_versions(link, max(0, min(next(known, 0), version)))
        if response.error_code is not ErrorCode.none:
            name = response.error_code.name.upper()
            raise NotServed(self._place, f"it refuses to name its versions ({name})")
        return response

    async def _ask_for_versions(self, link: PeerLink, version: int) -> Message:
        chosen = schema(ApiKey.API_VERSIONS, version)
        request = chosen.new(
            "ApiVersionsRequest", client_software_name="odradek", client_software_version=odradek.__version__
        )

        def read(frame: bytes, position: int) -> Any:
            (code,) = _ERROR_CODE.unpack_from(frame, position) if len(frame) >= position + 2 else (0,)
            answered = schema(ApiKey.API_VERSIONS, 0) if code == ErrorCode.unsupported_version else chosen
            return read_answer(answered, frame, position)

        return await link.send(chosen, request, read)

    def _agreed(self, api_key: int, highest: int | None) -> Schema:
        name = api_key_map[api_key]
        served = self.served.get(api_key)
        if served is None:
            raise NotServed(self._place, f"it does not serve {name}")
        lowest_known, highest_known = _known_versions(name)
        version = min(served[1], highest_known if highest is None else highest)
        if version < max(served[0], lowest_known):
            raise NotServed(self._place, f"it serves {name} in versions {served[0]} to {served[1]} only")
        return schema(api_key, version)


@cache
def _known_versions(name: str) -> VersionRange:
    """The lowest and the highest version of an API that can be read and written here."""
    versions = schema_name_map[name]
    return min(versions), max(versions)
