"""Opening a connection to another node, and saying exactly why there is none.

That a connect was *refused* is evidence: the machine is there and nobody listens on the port. Silence, a missing route
or an unknown name say nothing about the process. Whoever judges by that (a controller that suspects a broker, a voter
that suspects its leader) must be able to tell them apart, also where a name has several addresses.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

Connected = TypeVar("Connected", bound=asyncio.Protocol)

# Of an address that cannot be tried from this machine, having no such addresses itself: IPv6 switched off, for one.
_NO_SUCH_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


class Place(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PeerError(Exception):
    """Another node could not be asked, or did not answer."""

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place: Final = place
        self.reason: Final = reason


class Refused(PeerError):
    """Nobody listens: every address of the host refused the connection."""


class Unreachable(PeerError):
    """There is no connection, and no telling whether the process lives: silence, no route, an unknown name."""


async def open_connection(
    new_protocol: Callable[[], Connected], place: Place, timeout_seconds: float
) -> tuple[asyncio.BaseTransport, Connected]:
    """Tries the host's addresses one after the other. Raises Refused or Unreachable."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _first_that_answers(new_protocol, place)
    except TimeoutError:
        raise Unreachable(place, f"no connection within {timeout_seconds:g} s") from None


async def probe(host: str, port: int, *, timeout_seconds: float) -> None:
    """Returns if somebody accepts connections there, which is closed again at once. Raises Refused or Unreachable."""
    transport, _ = await open_connection(asyncio.Protocol, Place(host, port), timeout_seconds)
    transport.close()


async def _first_that_answers(
    new_protocol: Callable[[], Connected], place: Place
) -> tuple[asyncio.BaseTransport, Connected]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(place, f"the host name is not known here ({_reason(error)})") from None
    failures: list[OSError] = []
    for address in dict.fromkeys(str(entry[4][0]) for entry in found):
        try:
            return await loop.create_connection(new_protocol, address, place.port)
        except OSError as error:
            failures.append(error)
    raise _verdict(place, failures)


def _verdict(place: Place, failures: list[OSError]) -> PeerError:
    tried = [error for error in failures if error.errno not in _NO_SUCH_FAMILY] or failures
    if tried and all(isinstance(error, ConnectionRefusedError) for error in tried):
        return Refused(place, "connection refused")
    told = next((error for error in tried if not isinstance(error, ConnectionRefusedError)), None)
    return Unreachable(place, "the host has no address" if told is None else _reason(told))


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
