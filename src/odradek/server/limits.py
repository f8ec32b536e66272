"""How many connections a node takes, in all and from one address, and which it closes for having gone quiet.

Names and meanings are Kafka's: `max.connections`, `max.connections.per.ip`, `max.connections.per.ip.overrides`,
`connections.max.idle.ms`. At the first limit newcomers wait until somebody leaves, except on the listener that brokers
use among themselves, where there are others: there the idlest connection of another listener has to go.
"""

import asyncio
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from odradek.base.ports import Clock
from odradek.server.connection import Admission, ClientConnection

logger = logging.getLogger(__name__)

DEFAULT_WAITING_MAX: Final = 50
_LAST_ACTIVE: Final = attrgetter("last_active")


class NodeConnectionLimits:
    def __init__(
        self,
        clock: Clock,
        *,
        connections_max: int,
        per_address_max: int,
        per_address_overrides: Mapping[str, int],
        idle_ms_max: int,
        waiting_max: int = DEFAULT_WAITING_MAX,
        privileged_listener: str | None = None,
    ) -> None:
        self.monotonic: Final = clock.monotonic
        self._waiting_max: Final = waiting_max
        self._privileged_listener: Final = privileged_listener
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = per_address_overrides
        """By address, in the form in which peers have theirs: see `limits_by_address`."""
        self.idle_ms_max = idle_ms_max
        self._open: Final[dict[ClientConnection, None]] = {}
        # Told to go, and not gone yet.
        self._leaving: Final[set[ClientConnection]] = set()
        self._waiting: Final[dict[ClientConnection, None]] = {}
        self._per_address: Final[Counter[str]] = Counter()

    def admit(self, connection: ClientConnection) -> Admission:
        if self._has_room_for(connection):
            return Admission.TAKEN if self._take(connection) else Admission.REFUSED
        if len(self._waiting) >= self._waiting_max:
            logger.warning(
                "refusing a connection from %s: max.connections (%d) is reached, and %d wait already",
                connection.peer_host,
                self.connections_max,
                len(self._waiting),
            )
            return Admission.REFUSED
        self._waiting[connection] = None
        return Admission.WAITING

    def _has_room_for(self, connection: ClientConnection) -> bool:
        if connection.listener_name == self._privileged_listener:
            return True
        return len(self._open) + len(self._leaving) < self.connections_max

    def _take(self, connection: ClientConnection) -> bool:
        host = connection.peer_host
        allowed = self.per_address_overrides.get(host, self.per_address_max)
        if self._per_address[host] >= allowed:
            logger.warning("refusing a connection from %s: max.connections.per.ip is %d", host, allowed)
            return False
        self._open[connection] = None
        self._per_address[host] += 1
        self._close_excess()
        return True

    def release(self, connection: ClientConnection) -> None:
        self._waiting.pop(connection, None)
        if connection in self._open:
            del self._open[connection]
        elif connection in self._leaving:
            self._leaving.remove(connection)
        else:
            return
        host = connection.peer_host
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        self._let_in()

    def change(self, *, connections_max: int, per_address_max: int, per_address_overrides: Mapping[str, int]) -> None:
        """Limits that changed at run time; who is one too many now, and was idle for longest, has to go."""
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = per_address_overrides
        self._close_excess()
        self._let_in()

    def _let_in(self) -> None:
        for connection in list(self._waiting):
            if not self._has_room_for(connection):
                return
            del self._waiting[connection]
            if self._take(connection):
                connection.let_in()
            else:
                connection.close()

    def _close_excess(self) -> None:
        excess = len(self._open) - self.connections_max
        if excess <= 0:
            return
        others = [one for one in self._open if one.listener_name != self._privileged_listener]
        for connection in sorted(others, key=_LAST_ACTIVE)[:excess]:
            logger.warning("max.connections (%d) is exceeded: closing the idlest connection", self.connections_max)
            self._send_away(connection)

    def close_idle(self) -> None:
        """Closes what has been silent for `connections.max.idle.ms`; called now and then."""
        if self.idle_ms_max < 0:
            return
        oldest_allowed = self.monotonic() - self.idle_ms_max / 1000
        for connection in [one for one in self._open if one.last_active <= oldest_allowed]:
            self._send_away(connection)

    def _send_away(self, connection: ClientConnection) -> None:
        del self._open[connection]
        self._leaving.add(connection)
        # At once: a peer that reads nothing would keep a polite end waiting for ever.
        connection.abort()

    def connections(self) -> list[ClientConnection]:
        return [*self._open, *self._waiting]


def limits_by_address(overrides: Mapping[str, int]) -> dict[str, int]:
    """Those that are given for an address, in the form in which peers have theirs."""
    found: dict[str, int] = {}
    for host, limit in overrides.items():
        if (address := _as_address(host)) is not None:
            found[address] = limit
    return found


async def limits_by_name(overrides: Mapping[str, int]) -> dict[str, int]:
    """Those that are given for a host's name, by its addresses. Names that do not resolve are left out."""
    found: dict[str, int] = {}
    for host, limit in overrides.items():
        if _as_address(host) is None:
            try:
                entries = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                logger.warning("max.connections.per.ip.overrides: %s is not known (%s)", host, error.strerror or error)
                continue
            found.update({str(entry[4][0]): limit for entry in entries})
    return found


def _as_address(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None
