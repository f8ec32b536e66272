"""The sockets of a broker's doubts about partition leaders. The rules are in `core/liveness/unreachable_leaders`."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from odradek.base.background import log_fault, start_task
from odradek.base.ports import Clock
from odradek.core.liveness.unreachable_leaders import Doubt, LeaderDoubts
from odradek.core.metadata.image import ClusterImage
from odradek.server.peer import Disconnected, Peer, PeerError, Refused
from odradek.server.security import UNSECURED_PEER, PeerSecurity

RETRY_SECONDS: Final = 0.05
CLIENT_ID: Final = "unreachable-leader"


class UnreachableLeaders:
    def __init__(
        self,
        grace_seconds: float,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        self._rules: Final = LeaderDoubts(grace_seconds)
        self._image: Final = image
        self._clock: Final = clock
        self._peer_security: Final = peer_security
        self._probes: Final[set[asyncio.Task[None]]] = set()

    def on_disconnect(self, broker_id: int, broker_epoch: int, host: str, port: int) -> None:
        """The connection to this registration of a leader has closed."""
        broker = self._image().brokers.get(broker_id)
        doubt = self._rules.on_disconnect(broker, broker_epoch, self._clock.monotonic())
        if doubt is not None:
            # A doubt that is not resolved ends by itself.
            task = start_task("probe of a leader", self._probe_until_reached(broker_id, doubt, host, port), log_fault)
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    def ids(self) -> Collection[int]:
        return self._rules.ids(self._image().brokers, self._clock.monotonic())

    async def stop(self) -> None:
        for task in self._probes:
            task.cancel()
        if self._probes:
            await asyncio.wait(self._probes)

    async def _probe_until_reached(self, broker_id: int, doubt: Doubt, host: str, port: int) -> None:
        """Requires a response: a process that is dying may accept a connection for a moment longer."""
        peer = Peer(
            host,
            port,
            client_id=CLIENT_ID,
            connect_timeout_seconds=self._rules.doubt_seconds,
            security=self._peer_security,
        )
        try:
            while self._clock.monotonic() < doubt.ends_at:
                try:
                    await peer.connect()
                except (Refused, Disconnected):
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                except PeerError:
                    # A timeout is no evidence about the process.
                    pass
                break
        finally:
            peer.close()
        self._rules.on_reached(broker_id, doubt)
