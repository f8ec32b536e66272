"""Limits the number of connections to a node, in total and per address, and closes idle ones.

Names and meanings are Kafka's: `max.connections`, `max.connections.per.ip`, `max.connections.per.ip.overrides`,
`connections.max.idle.ms`. At `max.connections` a new connection waits until another one closes. The inter-broker
listener is privileged where there are other listeners: it closes the longest idle connection of another listener.
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
from odradek.core.quotas.connections import ConnectionRates
from odradek.server.accepting import PacedAdmission
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
        rates: ConnectionRates | None = None,
    ) -> None:
        self.monotonic: Final = clock.monotonic
        self._waiting_max: Final = waiting_max
        self._privileged_listener: Final = privileged_listener
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = per_address_overrides
        """By address, formatted as peer addresses are: see `limits_by_address`."""
        self.idle_ms_max = idle_ms_max
        self._open: Final[dict[ClientConnection, None]] = {}
        # Aborted, and not released yet.
        self._closing: Final[set[ClientConnection]] = set()
        self._waiting: Final[dict[ClientConnection, None]] = {}
        self._per_address: Final[Counter[str]] = Counter()
        self.rates: Final = rates or ConnectionRates(11, 1000)
        self._paced: Final = PacedAdmission(
            self.rates, clock.monotonic, admit=self._admit_counted, waiting_max=waiting_max
        )

    def admit(self, connection: ClientConnection) -> Admission:
        return self._paced.admit(connection) if self.rates.is_limited else self._admit_counted(connection)

    def _admit_counted(self, connection: ClientConnection) -> Admission:
        if self._has_room_for(connection):
            return Admission.ADMITTED if self._take(connection) else Admission.REJECTED
        if len(self._waiting) >= self._waiting_max:
            logger.warning(
                "Rejected connection from %s: max.connections (%d) is reached and %d connections are waiting",
                connection.peer,
                self.connections_max,
                len(self._waiting),
                extra={"client": connection.peer, "listener": connection.listener_name},
            )
            return Admission.REJECTED
        self._waiting[connection] = None
        return Admission.WAITING

    def _has_room_for(self, connection: ClientConnection) -> bool:
        if connection.listener_name == self._privileged_listener:
            return True
        return len(self._open) + len(self._closing) < self.connections_max

    def _take(self, connection: ClientConnection) -> bool:
        host = connection.peer_host
        allowed = self.per_address_overrides.get(host, self.per_address_max)
        if self._per_address[host] >= allowed:
            logger.warning(
                "Rejected connection from %s: max.connections.per.ip (%d) is reached",
                connection.peer,
                allowed,
                extra={"client": connection.peer, "listener": connection.listener_name},
            )
            return False
        self._open[connection] = None
        self._per_address[host] += 1
        self._close_excess()
        return True

    def release(self, connection: ClientConnection) -> None:
        self._waiting.pop(connection, None)
        self._paced.release(connection)
        if connection in self._open:
            del self._open[connection]
        elif connection in self._closing:
            self._closing.remove(connection)
        else:
            return
        host = connection.peer_host
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        self._admit_waiting()

    def change(self, *, connections_max: int, per_address_max: int, per_address_overrides: Mapping[str, int]) -> None:
        """Applies limits that changed at run time, and closes the longest idle connections above them."""
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = per_address_overrides
        self._close_excess()
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        for connection in list(self._waiting):
            if not self._has_room_for(connection):
                return
            del self._waiting[connection]
            if self._take(connection):
                connection.on_admitted()
            else:
                connection.close()

    def _close_excess(self) -> None:
        excess = len(self._open) - self.connections_max
        if excess <= 0:
            return
        others = [one for one in self._open if one.listener_name != self._privileged_listener]
        for connection in sorted(others, key=_LAST_ACTIVE)[:excess]:
            logger.warning(
                "Closed idle connection from %s: max.connections (%d) is exceeded",
                connection.peer,
                self.connections_max,
                extra={"client": connection.peer, "listener": connection.listener_name},
            )
            self._abort(connection)

    def close_idle(self) -> None:
        """Closes the connections that have been idle for `connections.max.idle.ms`."""
        if self.idle_ms_max < 0:
            return
        oldest_allowed = self.monotonic() - self.idle_ms_max / 1000
        for connection in [one for one in self._open if one.last_active <= oldest_allowed]:
            self._abort(connection)

    def _abort(self, connection: ClientConnection) -> None:
        del self._open[connection]
        self._closing.add(connection)
        # Not `close`: it would wait forever for a client that reads nothing.
        connection.abort()

    def connections(self) -> list[ClientConnection]:
        return [*self._open, *self._waiting, *self._paced.connections()]


def limits_by_address(overrides: Mapping[str, int]) -> dict[str, int]:
    """The overrides given for an address, formatted as peer addresses are."""
    found: dict[str, int] = {}
    for host, limit in overrides.items():
        if (address := _as_address(host)) is not None:
            found[address] = limit
    return found


async def limits_by_name(
    overrides: Mapping[str, int], setting: str = "max.connections.per.ip.overrides"
) -> dict[str, int]:
    """The overrides given for a host name, by the host's addresses. Names that do not resolve are left out."""
    found: dict[str, int] = {}
    for host, limit in overrides.items():
        if _as_address(host) is None:
            try:
                entries = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                logger.warning("%s: cannot resolve %s: %s", setting, host, error.strerror or error)
                continue
            found.update({str(entry[4][0]): limit for entry in entries})
    return found


def _as_address(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None
