"""Measures transactions per second: producers on separate connections, each with one transaction after the other.

A transaction is one record to one partition and its commit, as clients of `transaction.version` 2 send them: the
Produce request adds the partition to the transaction, and the EndTxn response contains the epoch of the next one.
Retriable errors are retried after 20 ms, as in the Java client.
"""

import asyncio
import struct
import time
from collections.abc import Sequence

import uvloop

from bench import coordinators
from bench.loads import Work
from bench.raw_connection import RawConnection, connect
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests.apis import Api
from tests.raw_wire import decode_response, encode_request
from tests.record_batches import TRANSACTIONAL, TestRecord, batch

PRODUCERS = 16
RETRY_S = 0.02
TIMEOUT_MS = 60_000
# The last version that identifies topics by name.
PRODUCE_VERSION = 12
INIT_VERSION, END_VERSION = 5, 5
RETRIABLE = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    # Returned for an internal topic that has just been created.
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
)
# Placeholder for the producer ID and epoch in a request.
_MARK = struct.pack(">qh", 0x0123_4567_89AB_CDEF, 0x0123)


def run_transactions(
    brokers: Sequence[Address], leaders: Sequence[Address], topic: str, *, warm_up_s: float, seconds: float
) -> Work:
    """`leaders` are those of the topic's partitions, in order. Counts every transaction whose commit succeeded."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(list(brokers), leaders, topic, warm_up_s, seconds))


async def _measure(
    brokers: list[Address], leaders: Sequence[Address], topic: str, warm_up_s: float, seconds: float
) -> Work:
    producers = [
        _Producer(
            f"producer-{number}",
            await coordinators.connect_to(coordinators.TRANSACTION, f"producer-{number}", brokers),
            await connect(leaders[number % len(leaders)]),
            topic,
            number % len(leaders),
        )
        for number in range(PRODUCERS)
    ]
    async with asyncio.TaskGroup() as tasks:
        for producer in producers:
            tasks.create_task(producer.run())
        await asyncio.sleep(warm_up_s)
        before, began_at = sum(one.committed for one in producers), time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (sum(one.committed for one in producers) - before) / (time.perf_counter() - began_at)
        for producer in producers:
            producer.is_over = True
    for producer in producers:
        producer.close()
    return Work(rate, sum(one.committed for one in producers))


class _Producer:
    def __init__(
        self, name: str, coordinator: RawConnection, leader: RawConnection, topic: str, partition: int
    ) -> None:
        self._name = name
        self._coordinator = coordinator
        self._leader = leader
        self.committed = 0
        self.is_over = False
        self._record = TestRecord(b"x" * 100)
        self._now_ms = int(time.time() * 1000)
        placeholder = self._batch(0, 0)
        data = [{"name": topic, "partition_data": [{"index": partition, "records": placeholder}]}]
        fields = {"transactional_id": name, "acks": -1, "timeout": 30_000, "topic_data": data}
        frame = encode_request(Api.PRODUCE, PRODUCE_VERSION, 1, fields)
        self._before_batch, _, self._after_batch = frame.partition(placeholder)
        id_mark, epoch_mark = struct.unpack(">qh", _MARK)
        fields = {"transactional_id": name, "producer_id": id_mark, "producer_epoch": epoch_mark, "committed": True}
        self._end = encode_request(Api.END_TXN, END_VERSION, 1, fields)

    async def run(self) -> None:
        producer_id, epoch = await self._begin()
        while not self.is_over:
            await self._produce(producer_id, epoch)
            producer_id, epoch = await self._commit(producer_id, epoch)
            self.committed += 1

    def close(self) -> None:
        self._coordinator.close()
        self._leader.close()

    def _batch(self, producer_id: int, epoch: int) -> bytes:
        return batch(
            self._record,
            timestamp=self._now_ms,
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )

    async def _begin(self) -> tuple[int, int]:
        fields = {"transactional_id": self._name, "transaction_timeout": TIMEOUT_MS, "producer_id": -1}
        while True:
            response = await self._coordinator.request(
                Api.INIT_PRODUCER_ID, INIT_VERSION, {**fields, "producer_epoch": -1}
            )
            if not await _should_retry(response.error_code):
                return response.producer_id, response.producer_epoch

    async def _produce(self, producer_id: int, epoch: int) -> None:
        frame = self._before_batch + self._batch(producer_id, epoch) + self._after_batch
        while True:
            response = decode_response(Api.PRODUCE, PRODUCE_VERSION, await self._leader.send(frame))
            if not await _should_retry(response.responses[0].partition_responses[0].error_code):
                return

    async def _commit(self, producer_id: int, epoch: int) -> tuple[int, int]:
        frame = self._end.replace(_MARK, struct.pack(">qh", producer_id, epoch))
        while True:
            response = decode_response(Api.END_TXN, END_VERSION, await self._coordinator.send(frame))
            if not await _should_retry(response.error_code):
                return response.producer_id, response.producer_epoch


async def _should_retry(error: ErrorCode) -> bool:
    if error is ErrorCode.none:
        return False
    assert error in RETRIABLE, error
    await asyncio.sleep(RETRY_S)
    return True
