"""Detects broker failures at once through an idle connection to each broker, which closes when the process dies.

The cluster's metadata reports the same failures later. A broker that closes an idle connection accepts the next one,
so it is not reported.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from odradek.client.address import Address

CONNECT_S: Final = 1.0
AGAIN_S: Final = 0.25


class BrokerProbe:
    """Calls `on_change` when a followed broker becomes unresponsive or responsive."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.unresponsive_since_ms: dict[int, int] = {}
        self._on_change: Final = on_change
        self._followed: dict[int, Address] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def follow(self, brokers: Mapping[int, Address]) -> None:
        """Replaces the set of followed brokers."""
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
                # A broker that never accepted a connection may only be unreachable from this machine.
                if was_there or isinstance(error, ConnectionRefusedError):
                    self._mark_unresponsive(broker)
                await asyncio.sleep(AGAIN_S)
                continue
            was_there = True
            self._mark_responsive(broker)
            try:
                await reader.read(1)
            except OSError:
                # A reset means the same as a close.
                pass
            finally:
                writer.close()
            # A dying process closes its connections milliseconds before its port.
            await asyncio.sleep(AGAIN_S / 5)

    def _mark_unresponsive(self, broker: int) -> None:
        if broker not in self.unresponsive_since_ms:
            self.unresponsive_since_ms[broker] = time.time_ns() // 1_000_000
            self._on_change()

    def _mark_responsive(self, broker: int) -> None:
        if self.unresponsive_since_ms.pop(broker, None) is not None:
            self._on_change()
