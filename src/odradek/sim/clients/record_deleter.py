"""Sends DeleteRecords requests: deleted records must not reappear under the next leader."""

import asyncio
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.reader import Reader
from odradek.sim.history import Deletion, History
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


class RecordDeleter:
    def __init__(self, client: ClusterClient, history: History, partition: TopicPartition) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._reader: Final = Reader(client, history, partition, uses_session=False)
        self.is_finishing = False

    async def run(self, interval_seconds: float) -> None:
        """Once `is_finishing` is set, returns after an acknowledged DeleteRecords, which all replicas have applied."""
        client = self._client
        while True:
            await asyncio.sleep(client.random.expovariate(1 / interval_seconds))
            is_last = self.is_finishing
            try:
                end_offset = await self._reader.end_offset()
                if is_last:
                    # As few records as possible: the final reader cannot check deleted ones.
                    offset = min(await self._reader.start_offset() + 1, end_offset)
                else:
                    offset = client.random.randrange(end_offset) if end_offset else 0
                if await self._delete(offset) and is_last:
                    return
            except RequestFailed as failure:
                client.note(f"gets no response for {self._partition}: {failure}")
                client.forget_leader(self._partition)

    async def _delete(self, offset: int) -> bool:
        client = self._client
        _, connection = await client.reach_leader(self._partition)
        deletion = Deletion(partition=self._partition, offset=offset, began=client.now)
        self._history.deletions.append(deletion)
        client.note(f"requests the deletion of {self._partition} below {offset}")
        response = await client.send_request(
            connection, ApiKey.DELETE_RECORDS, lambda chosen: self._request(chosen, offset)
        )
        result = response.topics[0].partitions[0]
        client.note(f"receives {result.error_code.name} for the deletion of {self._partition} below {offset}")
        if result.error_code is not ErrorCode.none:
            client.forget_leader(self._partition)
            return False
        responded = client.now
        # The response has no leader epoch. The deletion was not done in a later epoch than the leader knows now.
        await client.describe([self._partition.topic], connection)
        deletion.leader_epoch = (await client.leader(self._partition)).epoch
        deletion.ended = responded
        return True

    def _request(self, chosen: Schema, offset: int) -> Message:
        partition = chosen.new("DeleteRecordsPartition", partition_index=self._partition.partition, offset=offset)
        topic = chosen.new("DeleteRecordsTopic", name=self._partition.topic, partitions=(partition,))
        return chosen.new("DeleteRecordsRequest", topics=(topic,), timeout=milliseconds(1500))
