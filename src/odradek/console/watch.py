"""One shared view of the cluster, renewed while somebody looks at it: however many pages are open, the cluster is
asked once.
"""

import asyncio
import time
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.errors import ClientError
from odradek.console.gateway import Gateway
from odradek.console.look import look, look_closer, with_details
from odradek.console.readings.refusals import explain
from odradek.console.readings.sight import Sight

INTERVAL_S: Final = 1.0
DETAILS_INTERVAL_S: Final = 5.0
# Nobody has looked for so long: pages ask every second or two.
UNWATCHED_S: Final = 10.0
# A cluster of ten thousand topics is asked less often: looking shall take a quarter of the time at most.
_SHARE: Final = 4.0


class Watch:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway: Final = gateway
        self.sight: Sight | None = None
        self.failure: str | None = None
        """Why the last look failed; None while looks succeed."""
        self._before: Sight | None = None
        self._looked_at_s = 0.0
        self._details_at_s = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._hurry: Final = asyncio.Event()
        self._renewed: Final = asyncio.Event()

    def touch(self) -> Sight | None:
        """Somebody looks: what was last seen, which will be renewed from now on."""
        self._looked_at_s = time.monotonic()
        if self._task is None or self._task.done():
            if self.sight is not None:
                # What was seen before nobody looked is old news, good only to be compared with.
                self._before, self.sight = self.sight, None
            self._task = asyncio.get_running_loop().create_task(self._run())
        return self.sight

    def hurry(self) -> None:
        """Something was changed: the next look is now, and a close one."""
        self._details_at_s = float("-inf")
        self._hurry.set()

    async def renewed(self) -> Sight | None:
        """What the next look brings, or the last one if that fails."""
        self._renewed.clear()
        self.touch()
        self.hurry()
        await self._renewed.wait()
        return self.sight

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while time.monotonic() - self._looked_at_s < UNWATCHED_S:
            self._hurry.clear()
            began_s = time.monotonic()
            await self._look()
            self._renewed.set()
            pause_s = max(INTERVAL_S, _SHARE * (time.monotonic() - began_s))
            try:
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        try:
            before = self.sight or self._before
            sight = await self._gateway.ask(lambda cluster: look(cluster, before))
            self.sight, self.failure = sight, None
            if time.monotonic() - self._details_at_s >= DETAILS_INTERVAL_S:
                details = await self._gateway.ask(lambda cluster: look_closer(cluster, sight))
                self.sight = with_details(sight, details)
                self._details_at_s = time.monotonic()
        except (KafkaError, ClientError) as error:
            self.failure = explain(error)
