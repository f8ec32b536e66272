"""Leaders whose process seems to be gone: the connection to them broke, and nobody answers where they were.

Until the controller has said who follows them, a client that asks for the leader would be sent back to the dead one,
and some ask again only after a second. So it hears that there is no leader yet, and asks again soon. The controller
alone decides who is dead. This is a guess of one broker, and it holds for a moment only: a leader that is cut off from
here may serve its clients well.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from odradek.base.ports import Clock
from odradek.core.metadata.image import ClusterImage
from odradek.server.peer import Disconnected, Peer, PeerError, Refused

# Time for the controller to see it too, also if a new one has to be elected first.
DOUBT_GRACES: Final = 5
RETRY_SECONDS: Final = 0.05
CLIENT_ID: Final = "vanished-leader"


class _Doubt(NamedTuple):
    broker_epoch: int
    ends_at: float


class VanishedLeaders:
    def __init__(self, grace_seconds: float, *, image: Callable[[], ClusterImage], clock: Clock) -> None:
        self._doubt_seconds: Final = DOUBT_GRACES * grace_seconds
        self._image: Final = image
        self._clock: Final = clock
        self._doubts: Final[dict[int, _Doubt]] = {}
        self._watching: Final[set[asyncio.Task[None]]] = set()

    def connection_lost(self, broker_id: int, host: str, port: int) -> None:
        """Doubted from now on, since clients lost theirs at the same time; until it answers again."""
        broker = self._image().brokers.get(broker_id)
        if broker is None or not self._doubt_seconds:
            return
        doubt = self._doubts[broker_id] = _Doubt(broker.epoch, self._clock.monotonic() + self._doubt_seconds)
        watching = asyncio.ensure_future(self._watch(broker_id, doubt, host, port))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    def ids(self) -> Collection[int]:
        if self._doubts:
            now, brokers = self._clock.monotonic(), self._image().brokers
            for broker_id, doubt in list(self._doubts.items()):
                broker = brokers.get(broker_id)
                if now >= doubt.ends_at or broker is None or broker.fenced or broker.epoch != doubt.broker_epoch:
                    del self._doubts[broker_id]
        return self._doubts.keys()

    async def stop(self) -> None:
        for watching in self._watching:
            watching.cancel()
        if self._watching:
            await asyncio.wait(self._watching)

    async def _watch(self, broker_id: int, doubt: _Doubt, host: str, port: int) -> None:
        """Until it answers. That it accepts is not enough: what dies does so for a moment longer."""
        peer = Peer(host, port, client_id=CLIENT_ID, connect_timeout_seconds=self._doubt_seconds)
        try:
            while self._clock.monotonic() < doubt.ends_at:
                try:
                    await peer.connect()
                except (Refused, Disconnected):
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                except PeerError:
                    # Silence says nothing about the process.
                    pass
                break
        finally:
            peer.close()
        if self._doubts.get(broker_id) is doubt:
            del self._doubts[broker_id]
