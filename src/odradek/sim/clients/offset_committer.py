"""Somebody who assigns partitions to himself, and commits how far he has come: one offset after the other."""

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
        """Ends with a commit that was acknowledged, once nothing new is to be begun."""
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
