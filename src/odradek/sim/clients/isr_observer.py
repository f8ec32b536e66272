"""Queries a leader's ISR and then its end offset, which the checkers compare."""

from typing import Final

from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.reader import Reader
from odradek.sim.history import History, IsrView


class IsrObserver:
    def __init__(self, client: ClusterClient, history: History, partition: TopicPartition) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._reader: Final = Reader(client, history, partition, uses_session=False)

    async def run(self, interval_seconds: float) -> None:
        await self._client.run_periodically(interval_seconds, self._partition, self._observe)

    async def _observe(self) -> None:
        await self._observe_isr()
        await self._reader.end_offset()

    async def _observe_isr(self) -> None:
        client = self._client
        requested, connection = await client.reach_leader(self._partition)
        began = client.now
        topic = (await client.describe([self._partition.topic], connection))[self._partition.topic]
        leader = await client.leader(self._partition)
        if (leader.host, leader.port) != (requested.host, requested.port):
            return
        for partition in topic.partitions:
            if partition.partition_index == self._partition.partition:
                view = IsrView(
                    partition=self._partition,
                    leader_epoch=partition.leader_epoch,
                    isr=tuple(partition.isr_nodes),
                    began=began,
                    ended=client.now,
                )
                self._history.isr_views.append(view)
