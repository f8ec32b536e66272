"""Opens a connection to another node, and reports exactly why it cannot.

A *refused* connection is evidence: the machine runs and no process listens on the port. A timeout, a missing route or
an unknown host name say nothing about the process. Dead-process detection must distinguish them, also for a host name
with several addresses.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

Connected = TypeVar("Connected", bound=asyncio.BaseProtocol)

# This machine cannot connect to addresses of that family, for example because IPv6 is disabled.
_NO_SUCH_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PeerError(Exception):
    """A request to another node failed."""

    def __init__(self, address: HostPort, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address: Final = address
        self.reason: Final = reason


class Refused(PeerError):
    """Every address of the host refused the connection: no process listens on the port."""


class Unreachable(PeerError):
    """No connection, for a reason that says nothing about the process: a timeout, no route, an unknown host name."""


async def open_connection(
    new_protocol: Callable[[], Connected], address: HostPort, timeout_seconds: float
) -> tuple[asyncio.BaseTransport, Connected]:
    """Tries the host's addresses one after the other. Raises Refused or Unreachable."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _connect_to_first(new_protocol, address)
    except TimeoutError:
        raise Unreachable(address, f"no connection within {timeout_seconds:g} s") from None


async def probe(host: str, port: int, *, timeout_seconds: float) -> None:
    """Connects and closes the connection at once. Raises Refused or Unreachable."""
    transport, _ = await open_connection(asyncio.Protocol, HostPort(host, port), timeout_seconds)
    transport.close()


async def is_address_of(host: str, address: str) -> bool:
    """Whether the host name stands for this address. All loopback addresses are the same machine."""
    wanted = _parse_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    known = [_parse_address(str(entry[4][0])) for entry in found]
    return wanted in known or (wanted.is_loopback and any(one.is_loopback for one in known))


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    """An IPv4 address that came over IPv6 is an IPv4 address."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


async def _connect_to_first(
    new_protocol: Callable[[], Connected], address: HostPort
) -> tuple[asyncio.BaseTransport, Connected]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(address, f"cannot resolve the host name ({_reason(error)})") from None
    except UnicodeError:
        raise Unreachable(address, "cannot resolve the host name (it is invalid)") from None
    failures: list[OSError] = []
    for host in dict.fromkeys(str(entry[4][0]) for entry in found):
        try:
            return await loop.create_connection(new_protocol, host, address.port)
        except OSError as error:
            failures.append(error)
    raise _verdict(address, failures)


def _verdict(address: HostPort, failures: list[OSError]) -> PeerError:
    tried = [error for error in failures if error.errno not in _NO_SUCH_FAMILY] or failures
    if tried and all(isinstance(error, ConnectionRefusedError) for error in tried):
        return Refused(address, "connection refused")
    other = next((error for error in tried if not isinstance(error, ConnectionRefusedError)), None)
    return Unreachable(address, "the host has no address" if other is None else _reason(other))


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
