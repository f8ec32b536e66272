"""Whether brokers are there, felt at once: a connection to each that says nothing, and ends when the process does.

The cluster notices the same by its own rules and says so in its metadata; this is only quicker. A broker that ends a
connection for want of use takes the next one, and was never missed.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from odradek.client.address import Address

CONNECT_S: Final = 1.0
AGAIN_S: Final = 0.25


class BrokerProbe:
    """`on_change` is called when a broker is lost or found again; only while it is followed."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.unresponsive_since_ms: dict[int, int] = {}
        self._on_change: Final = on_change
        self._followed: dict[int, Address] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def follow(self, brokers: Mapping[int, Address]) -> None:
        """These and no others, from now on."""
        for broker in [one for one, address in self._followed.items() if brokers.get(one) != address]:
            self._leave(broker)
        for broker, address in brokers.items():
            if broker not in self._followed:
                self._followed[broker] = address
                self._tasks[broker] = asyncio.get_running_loop().create_task(self._probe(broker, address))

    def _leave(self, broker: int) -> None:
        del self._followed[broker]
        self._tasks.pop(broker).cancel()
        self.unresponsive_since_ms.pop(broker, None)

    async def _probe(self, broker: int, address: Address) -> None:
        was_there = False
        while True:
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(address.host, address.port)
            except (OSError, TimeoutError) as error:
                # Who was never reached may be out of reach from here only, and well.
                if was_there or isinstance(error, ConnectionRefusedError):
                    self._mark_unresponsive(broker)
                await asyncio.sleep(AGAIN_S)
                continue
            was_there = True
            self._mark_responsive(broker)
            try:
                await reader.read(1)
            except OSError:
                # Reset instead of ended: the same news.
                pass
            finally:
                writer.close()
            # A dying process ends its connections before its port, milliseconds apart.
            await asyncio.sleep(AGAIN_S / 5)

    def _mark_unresponsive(self, broker: int) -> None:
        if broker not in self.unresponsive_since_ms:
            self.unresponsive_since_ms[broker] = time.time_ns() // 1_000_000
            self._on_change()

    def _mark_responsive(self, broker: int) -> None:
        if self.unresponsive_since_ms.pop(broker, None) is not None:
            self._on_change()
