"""A producer with acks=1 that never retries: its records may get lost, but a record once read must stay."""

from typing import Final

from odradek.base.ids import TopicPartition
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.producer import produce_request
from odradek.sim.history import History, Send
from odradek.wire.apis import ApiKey

_ACKS_LEADER: Final = 1


class AcksOneProducer:
    def __init__(self, client: ClusterClient, history: History, partition: TopicPartition) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._count = 0

    async def run(self, interval_seconds: float) -> None:
        await self._client.run_periodically(interval_seconds, self._partition, self._send)

    async def _send(self) -> None:
        client = self._client
        leader, connection = await client.reach_leader(self._partition)
        value = f"{client.name}:{self._count}|".encode() + b"x" * 50
        self._count += 1
        data = build_batch([Record(None, value, client.clock.wall_ms())])
        send = Send(
            producer=client.name,
            is_idempotent=False,
            partition=self._partition,
            values=(value,),
            began=client.now,
        )
        self._history.sends.append(send)
        response = await client.send_request(
            connection,
            ApiKey.PRODUCE,
            lambda chosen: produce_request(chosen, self._partition, leader.topic_id, data, acks=_ACKS_LEADER),
        )
        result = response.responses[0].partition_responses[0]
        client.note(f"receives {result.error_code.name} for {send} at offset {result.base_offset}")
