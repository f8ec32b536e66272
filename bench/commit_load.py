"""Measures offset commits per second: groups on separate connections, several requests in flight on each."""

import asyncio
import time
from collections.abc import Sequence

import uvloop

from bench import coordinators
from bench.loads import Work
from bench.raw_connection import RawConnection
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests.apis import Api
from tests.raw_wire import decode_response, encode_request

GROUPS = 16
IN_FLIGHT = 5
# The last version that identifies topics by name.
VERSION = 9


def commit_offsets(brokers: Sequence[Address], topic: str, *, warm_up_s: float, seconds: float) -> Work:
    """Each request commits one offset and counts when it is acknowledged without an error."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(list(brokers), topic, warm_up_s, seconds))


async def _measure(brokers: list[Address], topic: str, warm_up_s: float, seconds: float) -> Work:
    load = _Load(topic)
    lines = [await coordinators.connect_to(coordinators.GROUP, f"group-{n}", brokers) for n in range(GROUPS)]
    async with asyncio.TaskGroup() as tasks:
        for number, connection in enumerate(lines):
            for _ in range(IN_FLIGHT):
                tasks.create_task(load.commit(connection, f"group-{number}"))
        await asyncio.sleep(warm_up_s)
        before, began_at = load.committed, time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (load.committed - before) / (time.perf_counter() - began_at)
        load.is_over = True
    for connection in lines:
        connection.close()
    return Work(rate, load.committed)


class _Load:
    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.committed = 0
        self.is_over = False

    async def commit(self, connection: RawConnection, group: str) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 12_345, "committed_leader_epoch": -1}]
        topics = [{"name": self._topic, "partitions": partitions}]
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        frame = encode_request(Api.OFFSET_COMMIT, VERSION, 1, fields)
        expected = await self._wait_for_first_response(connection, frame)
        while not self.is_over:
            # The same request has the same response: comparing bytes is cheaper than decoding every response.
            response = await connection.send(frame)
            assert response == expected, decode_response(Api.OFFSET_COMMIT, VERSION, response)
            self.committed += 1

    async def _wait_for_first_response(self, connection: RawConnection, frame: bytes) -> bytes:
        """Retries until the coordinator has loaded."""
        async with asyncio.timeout(coordinators.WAIT_S_MAX):
            while True:
                payload = await connection.send(frame)
                response = decode_response(Api.OFFSET_COMMIT, VERSION, payload)
                if response.topics[0].partitions[0].error_code is ErrorCode.none:
                    return payload
                await asyncio.sleep(coordinators.RETRY_S)
