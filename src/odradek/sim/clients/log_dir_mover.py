"""Moves replicas between the log dirs of their broker while other clients write and read."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import RequestFailed
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


class LogDirMover:
    def __init__(
        self,
        client: ClusterClient,
        partitions: Sequence[TopicPartition],
        log_dirs: Mapping[tuple[str, int], Sequence[str]],
    ) -> None:
        """`log_dirs` by the host and port of the broker."""
        self._client: Final = client
        self._partitions: Final = partitions
        self._log_dirs: Final = log_dirs

    async def run(self, interval_seconds: float) -> None:
        random = self._client.random
        while True:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            partition = random.choice(self._partitions)
            try:
                await self._move(partition)
            except RequestFailed:
                self._client.forget_leader(partition)

    async def _move(self, partition: TopicPartition) -> None:
        client = self._client
        leader = await client.leader(partition)
        log_dir = client.random.choice(self._log_dirs[leader.host, leader.port])
        connection = await client.connect(leader.host, leader.port)

        def build(chosen: Schema) -> Message:
            topic = chosen.new("AlterReplicaLogDirTopic", name=partition.topic, partitions=(partition.partition,))
            directory = chosen.new("AlterReplicaLogDir", path=log_dir, topics=(topic,))
            return chosen.new("AlterReplicaLogDirsRequest", dirs=(directory,))

        client.note(f"requests the move of {partition} to {log_dir}")
        response = await client.send_request(connection, ApiKey.ALTER_REPLICA_LOG_DIRS, build)
        code = response.results[0].partitions[0].error_code
        client.note(f"receives {code.name} for the move of {partition} to {log_dir}")
