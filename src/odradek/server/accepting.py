"""Delays new connections above `max.connection.creation.rate` and above the rate of their address.

A listener above its rate delays the next connection, and those behind it, in order. A connection from an address above
its rate is held for the delay, and then closed: its client would otherwise reconnect at once. Nothing is read from
either meanwhile.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.core.quotas.connections import ConnectionRates
from odradek.server.connection import Admission, ClientConnection

logger = logging.getLogger(__name__)

HELD_MAX: Final = 1000


class PacedAdmission:
    def __init__(
        self,
        rates: ConnectionRates,
        monotonic: Callable[[], float],
        *,
        admit: Callable[[ClientConnection], Admission],
        waiting_max: int,
    ) -> None:
        """`admit` applies the limits on the number of connections."""
        self._rates: Final = rates
        self._monotonic: Final = monotonic
        self._admit_counted: Final = admit
        self._waiting_max: Final = waiting_max
        # By listener. The first one has been counted, and waits for its delay.
        self._delayed: Final[dict[str, deque[ClientConnection]]] = {}
        self._timers: Final[dict[str, asyncio.TimerHandle]] = {}
        self._held: Final[dict[ClientConnection, asyncio.TimerHandle]] = {}

    def admit(self, connection: ClientConnection) -> Admission:
        listener = connection.listener_name
        delayed = self._delayed.get(listener)
        if delayed is None:
            delay_ms = self._rates.count(listener, self._now_ms())
            if not delay_ms:
                return self._admit_address(connection)
            delayed = self._delayed[listener] = deque()
            self._wait(listener, delay_ms)
        elif len(delayed) >= self._waiting_max:
            logger.warning(
                "Rejected connection from %s: max.connection.creation.rate is exceeded and %d connections are waiting",
                connection.peer,
                len(delayed),
                extra={"client": connection.peer, "listener": listener},
            )
            return Admission.REJECTED
        delayed.append(connection)
        return Admission.WAITING

    def release(self, connection: ClientConnection) -> None:
        timer = self._held.pop(connection, None)
        if timer is not None:
            timer.cancel()
        delayed = self._delayed.get(connection.listener_name)
        if delayed is not None and connection in delayed:
            delayed.remove(connection)

    def connections(self) -> list[ClientConnection]:
        return [*self._held, *(one for delayed in self._delayed.values() for one in delayed)]

    def _wait(self, listener: str, delay_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self._timers[listener] = loop.call_later(delay_ms / 1000, self._accept_delayed, listener)

    def _accept_delayed(self, listener: str) -> None:
        delayed = self._delayed[listener]
        # The first one has waited. If it was closed meanwhile, the next one takes its turn.
        while delayed:
            connection = delayed.popleft()
            admission = self._admit_address(connection)
            if admission is Admission.ADMITTED:
                connection.on_admitted()
            elif admission is Admission.REJECTED:
                connection.close()
            if not delayed:
                break
            delay_ms = self._rates.count(listener, self._now_ms())
            if delay_ms:
                self._wait(listener, delay_ms)
                return
        del self._delayed[listener]
        del self._timers[listener]

    def _admit_address(self, connection: ClientConnection) -> Admission:
        delay_ms = self._rates.count_address(connection.listener_name, connection.peer_host, self._now_ms())
        if not delay_ms:
            return self._admit_counted(connection)
        logger.debug(
            "Connection from %s above connection_creation_rate: closing it in %d ms", connection.peer, delay_ms
        )
        if len(self._held) >= HELD_MAX:
            return Admission.REJECTED
        self._held[connection] = asyncio.get_running_loop().call_later(delay_ms / 1000, connection.close)
        return Admission.WAITING

    def _now_ms(self) -> int:
        return int(self._monotonic() * 1000)
