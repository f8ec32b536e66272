"""Sends malformed batches, which brokers must reject: none of them may ever be read."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.records.batch import CRC_AT
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.producer import produce_request
from odradek.sim.history import History, Outcome, Send
from odradek.wire.apis import ApiKey

_TOO_LARGE_BYTES: Final = 1_100_000


class MalformedProducer:
    def __init__(self, client: ClusterClient, history: History, partition: TopicPartition) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._count = 0

    async def run(self, interval_seconds: float) -> None:
        await self._client.run_periodically(interval_seconds, self._partition, self._send_one)

    async def _send_one(self) -> None:
        client = self._client
        leader, connection = await client.reach_leader(self._partition)
        send, data = self._malformed_batch()
        self._history.sends.append(send)
        client.note(f"sends {send}, malformed")
        response = await client.send_request(
            connection, ApiKey.PRODUCE, lambda chosen: produce_request(chosen, self._partition, leader.topic_id, data)
        )
        code = response.responses[0].partition_responses[0].error_code
        client.note(f"receives {code.name} for {send}")
        send.ended = client.now
        send.outcome = Outcome.DONE if code is ErrorCode.none else Outcome.REFUSED
        send.reason = code.name

    def _malformed_batch(self) -> tuple[Send, bytes]:
        client = self._client
        value = f"{client.name}:{self._count}|".encode()
        self._count += 1
        now_ms = client.clock.wall_ms()
        kind = client.random.randrange(3)
        padding = b"x" * _TOO_LARGE_BYTES if kind == 0 else b""
        data = bytearray(build_batch([Record(None, value + padding, now_ms)]))
        if kind > 0:
            data[CRC_AT if kind == 1 else -1] ^= 0xFF
        send = Send(
            producer=client.name,
            is_idempotent=False,
            partition=self._partition,
            values=(value,),
            began=client.now,
            is_malformed=True,
        )
        return send, bytes(data)
