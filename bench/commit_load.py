"""Offset commits per second: groups on connections of their own, several requests under way on each."""

import asyncio
import time
from collections.abc import Sequence

import uvloop

from bench import coordinators
from bench.lines import Line
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests.apis import Api
from tests.raw_wire import decode_response, encode_request

GROUPS = 16
UNDER_WAY = 5
# The last that names topics by their names.
VERSION = 9


def commits_per_second(brokers: Sequence[Address], topic: str, *, warm_up_s: float, seconds: float) -> float:
    """Each commits one offset, and is counted when it is acknowledged without an error."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(list(brokers), topic, warm_up_s, seconds))


async def _measure(brokers: list[Address], topic: str, warm_up_s: float, seconds: float) -> float:
    load = _Load(topic)
    lines = [await coordinators.connect_to(coordinators.GROUP, f"group-{n}", brokers) for n in range(GROUPS)]
    async with asyncio.TaskGroup() as tasks:
        for number, line in enumerate(lines):
            for _ in range(UNDER_WAY):
                tasks.create_task(load.commit(line, f"group-{number}"))
        await asyncio.sleep(warm_up_s)
        before, began_at = load.committed, time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (load.committed - before) / (time.perf_counter() - began_at)
        load.is_over = True
    for line in lines:
        line.close()
    return rate


class _Load:
    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.committed = 0
        self.is_over = False

    async def commit(self, line: Line, group: str) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 12_345, "committed_leader_epoch": -1}]
        topics = [{"name": self._topic, "partitions": partitions}]
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        frame = encode_request(Api.OFFSET_COMMIT, VERSION, 1, fields)
        expected = await self._first_answer(line, frame)
        while not self.is_over:
            # The same question has the same answer, byte for byte: reading it each time would cost more than asking.
            answer = await line.send(frame)
            assert answer == expected, decode_response(Api.OFFSET_COMMIT, VERSION, answer)
            self.committed += 1

    async def _first_answer(self, line: Line, frame: bytes) -> bytes:
        """Once the coordinator has loaded."""
        async with asyncio.timeout(coordinators.WAIT_S_MAX):
            while True:
                payload = await line.send(frame)
                answer = decode_response(Api.OFFSET_COMMIT, VERSION, payload)
                if answer.topics[0].partitions[0].error_code is ErrorCode.none:
                    return payload
                await asyncio.sleep(coordinators.RETRY_S)
