"""An idempotent producer of one partition with several batches in flight, which it retries in order."""

import asyncio
from collections import deque
from struct import Struct
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.records.batch import CRC_AT
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.cluster_client import ClusterClient, Leader, milliseconds
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.history import History, Outcome, Send
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

ACKS_ALL: Final = -1
IN_FLIGHT_MAX: Final = 5
_CHECKSUM: Final = Struct(">I")
_IDLE_SECONDS: Final = 0.02
_BURST_PROBABILITY: Final = 0.4
_BURST_SECONDS: Final = 0.003

# Errors after which the same batch is sent again.
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.coordinator_load_in_progress,
    }
)


class _Batch:
    def __init__(self, send: Send, data: bytes) -> None:
        self.send: Final = send
        self.data: Final = data
        self.sent_at = 0.0


class Producer:
    """Sends until `is_finishing` is set, then waits until every batch has a response."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        partition: TopicPartition,
        *,
        sends_per_second: float,
        in_flight_max: int,
    ) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._interval_seconds: Final = 1 / sends_per_second
        self._in_flight_max: Final = in_flight_max
        self._in_flight: Final[deque[_Batch]] = deque()
        self._producer_id = -1
        self._sequence = 0
        self._sends_left = 0
        self._count = 0
        self.is_finishing = False

    async def run(self) -> None:
        client = self._client
        while self._in_flight or not self.is_finishing:
            try:
                if self._producer_id < 0:
                    await self._get_producer_id()
                await self._send_in_order()
            except RequestFailed as failure:
                client.note(f"reconnects: {failure}")
                client.forget_leader(self._partition)
                await client.back_off()

    def _renew(self) -> None:
        """Replaces the producer id from time to time, as a new producer does."""
        if not self._in_flight and self._sends_left <= 0:
            self._producer_id = -1
            raise RequestFailed("a new producer")

    async def _get_producer_id(self) -> None:
        client = self._client
        connection = await client.connect_to_any()

        def build(chosen: Schema) -> Message:
            return chosen.new("InitProducerIdRequest", transactional_id=None, transaction_timeout=milliseconds(60_000))

        response = await client.send_request(connection, ApiKey.INIT_PRODUCER_ID, build)
        if response.error_code is not ErrorCode.none:
            raise RequestFailed(f"no producer id: {response.error_code.name}")
        self._producer_id = response.producer_id
        self._sequence = 0
        self._sends_left = client.random.randrange(10, 100)
        self._history.producer_ids.append((client.name, response.producer_id))
        client.note(f"is producer {response.producer_id}")

    async def _send_in_order(self) -> None:
        """Over one connection: first the batches without a response, then new ones. Ends with an error."""
        client = self._client
        leader, connection = await client.reach_leader(self._partition)
        broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        for batch in self._in_flight:
            self._send_request(connection, leader, batch, broken)
        try:
            while self._in_flight or not self.is_finishing:
                await asyncio.wait((broken,), timeout=self._pause_seconds())
                if broken.done():
                    raise RequestFailed(broken.result())
                if self._in_flight and client.now - self._in_flight[0].sent_at > client.timeout_seconds:
                    raise RequestFailed("no response in time")
                self._renew()
                if not self.is_finishing and self._sends_left > 0 and len(self._in_flight) < self._in_flight_max:
                    batch = self._new_batch()
                    self._in_flight.append(batch)
                    self._send_request(connection, leader, batch, broken)
        finally:
            if self._in_flight:
                # Late responses would be mistaken for those of the next connection.
                connection.abort()

    def _pause_seconds(self) -> float:
        """Until the next batch: often none, so that one is appended while another is being synced."""
        random = self._client.random
        if self.is_finishing:
            return _IDLE_SECONDS
        if random.random() < _BURST_PROBABILITY:
            return random.random() * _BURST_SECONDS
        return random.expovariate(1 / self._interval_seconds)

    def _send_request(self, connection: Connection, leader: Leader, batch: _Batch, broken: asyncio.Future[str]) -> None:
        chosen = self._client.version(connection, ApiKey.PRODUCE)
        batch.sent_at = self._client.now
        response = connection.send_request(
            chosen, produce_request(chosen, self._partition, leader.topic_id, batch.data)
        )
        response.add_done_callback(lambda done: self._on_response(batch, leader.epoch, done, broken))

    def _on_response(
        self, batch: _Batch, leader_epoch: int, response: asyncio.Future[Message], broken: asyncio.Future[str]
    ) -> None:
        """Called in the order of the requests, until one of them has to be sent again."""
        if broken.done():
            return
        if error := response.exception():
            broken.set_result(str(error))
            return
        client, send = self._client, batch.send
        result = response.result().responses[0].partition_responses[0]
        if result.error_code in _RETRIABLE:
            broken.set_result(f"{send} has to be sent again: {result.error_code.name}")
            return
        assert self._in_flight[0] is batch, "responses arrive in the order of the requests"
        self._in_flight.popleft()
        send.ended = client.now
        if result.error_code is ErrorCode.none:
            send.outcome, send.offset, send.leader_epoch = Outcome.DONE, result.base_offset, leader_epoch
            client.note(f"receives offset {send.offset} for {send}")
            self._history.on_acknowledged(send)
            return
        send.outcome, send.reason = Outcome.REFUSED, result.error_code.name
        client.note(f"receives {send.reason} for {send}")
        # Later batches of this producer id would be rejected.
        self._producer_id = -1
        self._in_flight.clear()
        broken.set_result(f"{send} was rejected")

    def _new_batch(self) -> _Batch:
        client, random = self._client, self._client.random
        count = random.choice((1, 1, 2, 3, 8))
        values = []
        for _ in range(count):
            values.append(f"{client.name}:{self._count}|".encode() + b"x" * random.choice((10, 300, 1000)))
            self._count += 1
        now_ms = client.clock.wall_ms()
        data = build_batch(
            [Record(None, value, now_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        self._sequence += count
        self._sends_left -= 1
        send = Send(
            producer=client.name,
            is_idempotent=True,
            partition=self._partition,
            values=tuple(values),
            began=client.now,
            checksum=_CHECKSUM.unpack_from(data, CRC_AT)[0],
        )
        self._history.sends.append(send)
        client.note(f"sends {send}")
        return _Batch(send, data)


def produce_request(
    chosen: Schema, partition: TopicPartition, topic_id: object, data: bytes, *, acks: int = ACKS_ALL
) -> Message:
    records = chosen.new("PartitionProduceData", index=partition.partition, records=data)
    topic = chosen.new("TopicProduceData", name=partition.topic, topic_id=topic_id, partition_data=(records,))
    return chosen.new(
        "ProduceRequest", transactional_id=None, acks=acks, timeout=milliseconds(1500), topic_data=(topic,)
    )
