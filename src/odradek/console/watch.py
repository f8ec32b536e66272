"""Keeps one shared snapshot of the cluster up to date while pages are open: the load on the cluster does not grow with
the number of pages.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.errors import ClientError
from odradek.client.traffic import Rates
from odradek.console.broker_probe import BrokerProbe
from odradek.console.gateway import Gateway
from odradek.console.history import new_series
from odradek.console.readings.charts import Sample
from odradek.console.readings.refusals import explain
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.snapshots import add_details, fetch_details, take_snapshot

INTERVAL_S: Final = 1.0
# Used while a broker is unresponsive and the controller is about to fence it.
MISSING_INTERVAL_S: Final = 0.3
DETAILS_INTERVAL_S: Final = 5.0
# Snapshots stop after this time without an open page.
UNWATCHED_S: Final = 10.0
# Pause after each snapshot, as a multiple of its duration, to limit the load on large clusters.
_SHARE: Final = 4.0


class Watch:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway: Final = gateway
        self.snapshot: ClusterSnapshot | None = None
        self.failure: str | None = None
        """Why the last snapshot failed; None if it succeeded."""
        self.throughput: Final = new_series()
        """Bytes per second that clients write and read, collected while pages are open."""
        self._probe: Final = BrokerProbe(self._on_probe_change)
        self._before: ClusterSnapshot | None = None
        self._touched_at_s = 0.0
        self._details_at_s = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._hurry: Final = asyncio.Event()
        self._renewed: Final = asyncio.Event()

    def touch(self) -> ClusterSnapshot | None:
        """Reports an open page: returns the latest snapshot and keeps refreshing it."""
        self._touched_at_s = time.monotonic()
        if self._task is None or self._task.done():
            if self.snapshot is not None:
                # A snapshot from before the pause is stale and serves only for comparison.
                self._before, self.snapshot = self.snapshot, None
            self._task = asyncio.get_running_loop().create_task(self._run())
        return self.snapshot

    def hurry(self) -> None:
        """Takes a snapshot with details now, after a change."""
        self._details_at_s = float("-inf")
        self._hurry.set()

    async def wait_for_next_snapshot(self) -> ClusterSnapshot | None:
        """Waits for the next snapshot; returns the last one if that fails."""
        self._renewed.clear()
        self.touch()
        self.hurry()
        await self._renewed.wait()
        return self.snapshot

    async def wait_for_first_snapshot(self) -> None:
        """Waits until the first snapshot succeeds or fails."""
        self.touch()
        if self.snapshot is None and self.failure is None:
            self._renewed.clear()
            await self._renewed.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._probe.follow({})

    async def _run(self) -> None:
        is_watched = True
        while is_watched:
            self._hurry.clear()
            began_s = time.monotonic()
            await self._refresh()
            self._renewed.set()
            is_missing_one = self.snapshot is not None and self.snapshot.unresponsive
            pause_s = max(MISSING_INTERVAL_S if is_missing_one else INTERVAL_S, _SHARE * (time.monotonic() - began_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            # A caller that set it waits for a snapshot, however late this task runs on a busy computer.
            is_watched = self._hurry.is_set() or time.monotonic() - self._touched_at_s < UNWATCHED_S
        self._probe.follow({})

    def _on_probe_change(self) -> None:
        """Shows the change at once and triggers a snapshot."""
        if self.snapshot is not None:
            self.snapshot = replace(self.snapshot, unresponsive_since_ms=dict(self._probe.unresponsive_since_ms))
        self._hurry.set()

    def _keep_rates(self, snapshot: ClusterSnapshot) -> None:
        if snapshot.traffic.rates:
            rates = sum((rate for held in snapshot.traffic.rates.values() for rate in held.values()), start=Rates())
            self.throughput.append(Sample(snapshot.at_ms, (rates.bytes_in, rates.bytes_out)))

    async def _refresh(self) -> None:
        try:
            before = self.snapshot or self._before
            snapshot = await self._gateway.query(lambda cluster: take_snapshot(cluster, before))
            self._probe.follow(
                {one: snapshot.members[one].address for one in snapshot.reachable & snapshot.members.keys()}
            )
            self.snapshot, self.failure = (
                replace(snapshot, unresponsive_since_ms=dict(self._probe.unresponsive_since_ms)),
                None,
            )
            # Pages can be drawn now; the expensive details follow.
            self._renewed.set()
            if time.monotonic() - self._details_at_s >= DETAILS_INTERVAL_S:
                details = await self._gateway.query(lambda cluster: fetch_details(cluster, snapshot))
                self.snapshot = add_details(self.snapshot, details)
                self._details_at_s = time.monotonic()
                self._keep_rates(self.snapshot)
        except (KafkaError, ClientError) as error:
            self.failure = explain(error)
