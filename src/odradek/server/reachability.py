"""Says in the log when clients are being sent to an address that they cannot reach.

The first complaint of new operators: a client gets through to the bootstrap address, is told the advertised one, and
fails there. Two things can be known from here: an advertised name that resolves to nothing or to somebody else's port,
and a loopback address advertised to a client that came from another machine.
"""

import asyncio
import ipaddress
import logging
import socket
from typing import Final

logger = logging.getLogger(__name__)

CONNECT_SECONDS_MAX: Final = 3.0
# Peers that were judged already; bounded, since anybody may connect.
PEERS_REMEMBERED_MAX: Final = 1000


class Reachability:
    def __init__(self, listener_name: str, advertised_host: str, advertised_port: int) -> None:
        self._listener_name: Final = listener_name
        self._host: Final = advertised_host
        self._port: Final = advertised_port
        self._addresses: frozenset[str] = frozenset()
        self._judged: set[str] = set()

    async def check(self) -> None:
        """Resolves the advertised address and connects to it once, as a client on this machine would."""
        loop = asyncio.get_running_loop()
        place = f"{self._host}:{self._port}"
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError:
            self._warn(f"clients are told to connect to {place}, but {self._host} does not resolve here")
            return
        self._addresses = frozenset(str(entry[4][0]) for entry in found)
        try:
            transport, _ = await asyncio.wait_for(
                loop.create_connection(asyncio.Protocol, self._host, self._port), CONNECT_SECONDS_MAX
            )
        except (OSError, TimeoutError) as error:
            reason = "it does not answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            self._warn(f"clients are told to connect to {place}, which cannot be reached from this machine: {reason}")
            return
        transport.close()

    def client_connected(self, peer_host: str) -> None:
        # Whoever comes before the address is known is judged when it comes again.
        if not self._addresses or peer_host in self._judged or len(self._judged) >= PEERS_REMEMBERED_MAX:
            return
        self._judged.add(peer_host)
        if reason := unreachable_from(peer_host, self._host, self._addresses):
            self._warn(reason)

    def _warn(self, reason: str) -> None:
        logger.warning("%s; correct advertised.listeners for %s", reason, self._listener_name)


def unreachable_from(peer_host: str, advertised_host: str, addresses: frozenset[str]) -> str | None:
    """Why a client at `peer_host` cannot use the advertised address, or None where that is not certain."""
    if not addresses or not all(map(_is_loopback, addresses)) or _is_loopback(peer_host):
        return None
    return (
        f"a client at {peer_host} is told to connect to {advertised_host}, "
        f"which is the client's own machine and not this one"
    )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
