"""Warns when clients cannot reach the advertised address.

The most common problem of new operators: a client reaches the bootstrap address, receives the advertised address, and
fails to connect to it. The node can detect two cases: an advertised host that does not resolve or does not accept
connections, and a loopback address advertised to a client on another machine.
"""

import asyncio
import ipaddress
import logging
import socket
from typing import Final

logger = logging.getLogger(__name__)

CONNECT_SECONDS_MAX: Final = 3.0
# Bounded, since any host may connect.
CHECKED_PEERS_MAX: Final = 1000


class Reachability:
    def __init__(self, listener_name: str, advertised_host: str, advertised_port: int) -> None:
        self._listener_name: Final = listener_name
        self._host: Final = advertised_host
        self._port: Final = advertised_port
        self._addresses: frozenset[str] = frozenset()
        self._checked_peers: set[str] = set()

    async def check(self) -> None:
        """Resolves the advertised address and connects to it once, as a client on this machine would."""
        loop = asyncio.get_running_loop()
        place = f"{self._host}:{self._port}"
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError:
            self._warn(f"The advertised address {place} does not resolve on this machine")
            return
        self._addresses = frozenset(str(entry[4][0]) for entry in found)
        try:
            transport, _ = await asyncio.wait_for(
                loop.create_connection(asyncio.Protocol, self._host, self._port), CONNECT_SECONDS_MAX
            )
        except (OSError, TimeoutError) as error:
            reason = "connection timed out" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            self._warn(f"The advertised address {place} cannot be reached from this machine: {reason}")
            return
        transport.close()

    def on_client(self, peer_host: str) -> None:
        # A client that connects before the address is resolved is checked when it connects again.
        if not self._addresses or peer_host in self._checked_peers or len(self._checked_peers) >= CHECKED_PEERS_MAX:
            return
        self._checked_peers.add(peer_host)
        if reason := unreachable_from(peer_host, self._host, self._addresses):
            self._warn(reason)

    def _warn(self, reason: str) -> None:
        logger.warning(
            "%s. Correct advertised.listeners for listener %s.",
            reason,
            self._listener_name,
            extra={"listener": self._listener_name},
        )


def unreachable_from(peer_host: str, advertised_host: str, addresses: frozenset[str]) -> str | None:
    """Why a client at `peer_host` cannot use the advertised address, or None where that is not certain."""
    if not addresses or not all(map(_is_loopback, addresses)) or _is_loopback(peer_host):
        return None
    return (
        f"The advertised address {advertised_host} is a loopback address: "
        f"the client at {peer_host} would connect to its own machine"
    )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
