"""A consumer with a manually assigned partition that only commits increasing offsets."""

import asyncio
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.group_client import GroupClient
from odradek.sim.history import History


class OffsetCommitter:
    def __init__(self, client: ClusterClient, history: History, group: str, partition: TopicPartition) -> None:
        self._groups: Final = GroupClient(client, history, group)
        self._client: Final = client
        self._partition: Final = partition
        self.is_finishing = False

    async def run(self, interval_seconds: float) -> None:
        """Once `is_finishing` is set, returns after the next acknowledged commit."""
        while True:
            is_last = self.is_finishing
            if await self._commit() and is_last:
                return
            await asyncio.sleep(self._client.random.expovariate(1 / interval_seconds))

    async def _commit(self) -> bool:
        groups = self._groups
        try:
            if self._client.random.random() < 0.5:
                await groups.fetch_committed_offset(self._partition)
            code = await groups.commit(self._partition)
        except RequestFailed as failure:
            self._client.note(f"cannot commit: {failure}")
            self._client.forget_leader(self._partition)
            code = ErrorCode.coordinator_not_available
        if code is not ErrorCode.none:
            groups.forget_coordinator()
            await self._client.back_off()
        return code is ErrorCode.none
