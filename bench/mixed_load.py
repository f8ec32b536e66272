"""Loads of all kinds on one broker at once: each is a coroutine that repeats its requests until it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import uvloop

from bench.raw_connection import RawConnection, connect
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests import offsets_log
from tests.apis import Api
from tests.raw_wire import encode_request
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import fetch_fields, now_ms, produce_fields

PLAIN, LARGE, COMPACTED, DURABLE = "plain", "large", "compacted", "durable"
CONFIGS: Final = {
    PLAIN: {},
    LARGE: {"retention.bytes": str(200_000_000), "segment.bytes": str(20_000_000)},
    COMPACTED: {"cleanup.policy": "compact", "segment.bytes": str(5_000_000), "min.cleanable.dirty.ratio": "0.1"},
    DURABLE: {"flush.messages": "1"},
}
IN_FLIGHT: Final = 3
# Requests that no client repeats without a pause.
PAUSE_S: Final = 0.5
CHANGED_TOPICS: Final = 20
COMMITTED_VERSION: Final = 9

Load = Callable[[], Awaitable[None]]


class MixedLoad:
    def __init__(self, broker: Address, http_port: int) -> None:
        self._broker = broker
        self._http_port = http_port
        self.requests: dict[str, int] = {}

    def run(self, seconds: float) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run(seconds))

    async def _run(self, seconds: float) -> None:
        loads: Sequence[Load] = (
            *[self._produce_small] * 3,
            self._produce_large,
            *[self._produce_keyed] * 2,
            *[self._produce_durably] * 2,
            *[self._fetch_large] * 2,
            *[self._wait_for_records] * 5,
            *[self._commit_offsets] * 4,
            self._request_metadata,
            self._change_topics,
            self._scrape,
        )
        tasks = [asyncio.ensure_future(load()) for load in loads]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        for task in done:
            task.result()

    # Records

    async def _produce_small(self) -> None:
        await self._produce("small batches", PLAIN, *(TestRecord(b"x" * 100) for _ in range(10)))

    async def _produce_large(self) -> None:
        await self._produce("large batches", LARGE, *(TestRecord(b"x" * 1000) for _ in range(900)))

    async def _produce_keyed(self) -> None:
        """The broker walks the records of compacted topics."""
        await self._produce("keyed batches", COMPACTED, *(TestRecord(b"x" * 10, b"%d" % n) for n in range(20_000)))

    async def _produce_durably(self) -> None:
        await self._produce("synced batches", DURABLE, TestRecord(b"x" * 100))

    async def _produce(self, name: str, topic: str, *records: TestRecord) -> None:
        fields = produce_fields(topic, batch(*records, timestamp=now_ms()))
        await self._repeat(name, encode_request(Api.PRODUCE, 9, 1, fields), in_flight=IN_FLIGHT)

    async def _fetch_large(self) -> None:
        frame = encode_request(Api.FETCH, 12, 1, fetch_fields(LARGE, 0, max_bytes=8 << 20))
        await self._repeat("large fetches", frame)

    async def _wait_for_records(self) -> None:
        connection = await self._connect()
        offset = 0
        while True:
            fields = fetch_fields(PLAIN, offset, max_wait_ms=500, max_bytes=1 << 20)
            (partition,) = (await connection.request(Api.FETCH, 12, fields)).responses[0].partitions
            offset = partition.high_watermark
            self._count("long polls")

    # Coordinators

    async def _commit_offsets(self) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 12_345, "committed_leader_epoch": -1}]
        topics = [{"name": offsets_log.COMMITTED_TOPIC, "partitions": partitions}]
        fields = {
            "group_id": offsets_log.group_of(0),
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": topics,
        }
        await self._repeat("commits", encode_request(Api.OFFSET_COMMIT, COMMITTED_VERSION, 1, fields))

    # Metadata

    async def _request_metadata(self) -> None:
        frame = encode_request(Api.METADATA, 12, 1, {"topics": None})
        await self._repeat("metadata of all topics", frame, pause_s=PAUSE_S)

    async def _change_topics(self) -> None:
        connection = await self._connect()
        names = [f"changing-{number}" for number in range(CHANGED_TOPICS)]
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        while True:
            created = await connection.request(Api.CREATE_TOPICS, 7, {"topics": topics, "timeout": 10_000})
            assert all(topic.error_code is ErrorCode.none for topic in created.topics), created
            await asyncio.sleep(PAUSE_S)
            await connection.request(Api.DELETE_TOPICS, 5, {"topic_names": names, "timeout": 10_000})
            await asyncio.sleep(PAUSE_S)
            self._count("created and deleted topics", CHANGED_TOPICS)

    async def _scrape(self) -> None:
        while True:
            reader, writer = await asyncio.open_connection(self._broker.host, self._http_port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")
            await reader.read()
            writer.close()
            self._count("scrapes")
            await asyncio.sleep(PAUSE_S)

    # Requests

    async def _repeat(self, name: str, frame: bytes, *, in_flight: int = 1, pause_s: float = 0.0) -> None:
        connection = await self._connect()

        async def send() -> None:
            while True:
                await connection.send(frame)
                self._count(name)
                await asyncio.sleep(pause_s)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(send())

    async def _connect(self) -> RawConnection:
        return await connect(self._broker)

    def _count(self, name: str, requests: Any = 1) -> None:
        self.requests[name] = self.requests.get(name, 0) + requests
