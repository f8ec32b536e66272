"""One shared view of the cluster, renewed while somebody looks at it: however many pages are open, the cluster is
asked once.
"""

import asyncio
import time
from dataclasses import replace
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.errors import ClientError
from odradek.client.traffic import Rates
from odradek.console.gateway import Gateway
from odradek.console.history import new_series
from odradek.console.look import look, look_closer, with_details
from odradek.console.pulse import Pulse
from odradek.console.readings.charts import Sample
from odradek.console.readings.refusals import explain
from odradek.console.readings.sight import Sight

INTERVAL_S: Final = 1.0
# While a broker does not answer and the cluster has not noticed: it is about to.
MISSING_INTERVAL_S: Final = 0.3
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
        self.throughput: Final = new_series()
        """Bytes per second that clients write and read, as long as somebody looks."""
        self._pulse: Final = Pulse(self._feel)
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

    async def first(self) -> None:
        """Returns once there was a look, whatever came of it."""
        self.touch()
        if self.sight is None and self.failure is None:
            self._renewed.clear()
            await self._renewed.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pulse.follow({})

    async def _run(self) -> None:
        while time.monotonic() - self._looked_at_s < UNWATCHED_S:
            self._hurry.clear()
            began_s = time.monotonic()
            await self._look()
            self._renewed.set()
            is_missing_one = self.sight is not None and self.sight.lost
            pause_s = max(MISSING_INTERVAL_S if is_missing_one else INTERVAL_S, _SHARE * (time.monotonic() - began_s))
            try:
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue
        self._pulse.follow({})

    def _feel(self) -> None:
        """A broker went, or came back: shown at once, and looked into."""
        if self.sight is not None:
            self.sight = replace(self.sight, lost_since_ms=dict(self._pulse.lost_since_ms))
        self._hurry.set()

    def _keep_rates(self, sight: Sight) -> None:
        if sight.traffic.rates:
            rates = sum((rate for held in sight.traffic.rates.values() for rate in held.values()), start=Rates())
            self.throughput.append(Sample(sight.at_ms, (rates.bytes_in, rates.bytes_out)))

    async def _look(self) -> None:
        try:
            before = self.sight or self._before
            sight = await self._gateway.ask(lambda cluster: look(cluster, before))
            self._pulse.follow({one: sight.members[one].address for one in sight.reachable & sight.members.keys()})
            self.sight, self.failure = replace(sight, lost_since_ms=dict(self._pulse.lost_since_ms)), None
            # Pages can be drawn: what is dear comes later.
            self._renewed.set()
            if time.monotonic() - self._details_at_s >= DETAILS_INTERVAL_S:
                details = await self._gateway.ask(lambda cluster: look_closer(cluster, sight))
                self.sight = with_details(self.sight, details)
                self._details_at_s = time.monotonic()
                self._keep_rates(self.sight)
        except (KafkaError, ClientError) as error:
            self.failure = explain(error)
