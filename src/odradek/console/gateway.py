"""Runs blocking clients from an event loop, on a bounded number of threads with one client each.

Queries beyond the limit fail at once, so that requests to a slow cluster do not queue up in the console.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import NOTHING, Security

T = TypeVar("T")

THREADS: Final = 6
WAITING_MAX: Final = 48
CLIENT_ID: Final = "odradek-console"


class Busy(ClientError):
    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} requests to the cluster are already waiting. Try again in a moment")


class Gateway:
    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        security: Security = NOTHING,
        threads: int = THREADS,
        timeout_s: float = 5.0,
    ) -> None:
        self._bootstrap: Final = tuple(bootstrap)
        self._security: Final = security
        self._timeout_s: Final = timeout_s
        self._threads: Final = ThreadPoolExecutor(threads, thread_name_prefix="console-client")
        self._idle: Final[SimpleQueue[Cluster]] = SimpleQueue()
        self._under_way = 0

    async def query(self, function: Callable[[Cluster], T]) -> T:
        """Returns or raises the result of `function`. Raises Busy."""
        if self._under_way >= WAITING_MAX:
            raise Busy(self._under_way)
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._query, function)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _query(self, function: Callable[[Cluster], T]) -> T:
        try:
            cluster = self._idle.get_nowait()
        except Empty:
            cluster = Cluster(self._bootstrap, client_id=CLIENT_ID, timeout_s=self._timeout_s, security=self._security)
        try:
            result = function(cluster)
        except (KafkaError, ClientError) as error:
            cluster.identify(error)
            # The client drops the failed connection and keeps the others.
            self._idle.put(cluster)
            raise
        except BaseException:
            cluster.close()
            raise
        self._idle.put(cluster)
        return result
