"""How many connections a node takes, in all and from one address, and which it closes for having gone quiet.

Names and meanings are Kafka's: `max.connections`, `max.connections.per.ip`, `max.connections.per.ip.overrides`,
`connections.max.idle.ms`.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping

from odradek.base.ports import Clock
from odradek.net.connection import ClientConnection

logger = logging.getLogger(__name__)


class NodeConnectionLimits:
    def __init__(
        self,
        clock: Clock,
        *,
        connections_max: int,
        per_address_max: int,
        per_address_overrides: Mapping[str, int],
        idle_ms_max: int,
    ) -> None:
        self._clock = clock
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = per_address_overrides
        self.idle_ms_max = idle_ms_max
        # Least recently active first, with the time of the last byte.
        self._open: OrderedDict[ClientConnection, float] = OrderedDict()
        self._per_address: Counter[str] = Counter()

    def admit(self, connection: ClientConnection, host: str) -> bool:
        allowed = self.per_address_overrides.get(host, self.per_address_max)
        if self._per_address[host] >= allowed:
            logger.warning("refusing a connection from %s: max.connections.per.ip is %d", host, allowed)
            return False
        if len(self._open) >= self.connections_max:
            # As Kafka's acceptor: room is made by closing the connection that was quiet for longest.
            logger.warning("max.connections (%d) is reached: closing the idlest connection", self.connections_max)
            next(iter(self._open)).close()
        self._open[connection] = self._clock.monotonic()
        self._per_address[host] += 1
        return True

    def release(self, connection: ClientConnection, host: str) -> None:
        self._open.pop(connection, None)
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

    def active(self, connection: ClientConnection) -> None:
        if connection in self._open:
            self._open[connection] = self._clock.monotonic()
            self._open.move_to_end(connection)

    def close_idle(self) -> None:
        """Closes what has sent nothing for `connections.max.idle.ms`; called now and then."""
        if self.idle_ms_max < 0:
            return
        oldest_allowed = self._clock.monotonic() - self.idle_ms_max / 1000
        for connection, last_active in list(self._open.items()):
            if last_active > oldest_allowed:
                return
            connection.close()

    def connections(self) -> list[ClientConnection]:
        return list(self._open)
