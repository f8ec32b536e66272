"""Members of groups without a client behind them, of either protocol: they join, send heartbeats, and join again.

A heartbeat that is answered as the one before costs next to nothing here, so that thousands of members fit in one
process beside the brokers that are measured.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from uuid import UUID, uuid4

from bench.lines import Line
from odradek.base.errors import ErrorCode
from tests.apis import Api, latest
from tests.raw_wire import decode_response, encode_request

CLASSIC_INTERVAL_S = 3.0
SESSION_MS, REBALANCE_MS = 45_000, 300_000
RETRY_S = 0.1
RETRIED = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
# Version 1 of the consumer protocol: topics, no user data, nothing owned.
_SUBSCRIPTION = b"\0\1" + b"\0\0\0\1" + b"%b" + b"\xff\xff\xff\xff" + b"\0\0\0\0"


@dataclass
class Tally:
    """Of all members together."""

    heartbeats: int = 0
    rebalances: int = 0
    """Joins again, changes of epoch, and errors that no member expects."""
    longest_s: float = 0.0


class Member(Protocol):
    async def join(self) -> None: ...

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None: ...


class _Heartbeats:
    """The same question as long as the answer is the same."""

    def __init__(self, line: Line, api: Api, tally: Tally) -> None:
        self._line = line
        self._api = api
        self._tally = tally
        self._expected = b""

    async def send(self, frame: bytes) -> Any | None:
        """None where nothing is new."""
        began_at = time.perf_counter()
        payload = await self._line.send(frame)
        self._tally.longest_s = max(self._tally.longest_s, time.perf_counter() - began_at)
        self._tally.heartbeats += 1
        if payload == self._expected:
            return None
        answer = decode_response(self._api, latest(self._api), payload)
        if answer.error_code is ErrorCode.none:
            self._expected = payload
        return answer


class ClassicMember:
    """Whoever leads gives everybody nothing: what is assigned is no matter to the coordinator."""

    def __init__(self, group: str, topic: str, line: Line, tally: Tally) -> None:
        self._group = group
        name = topic.encode()
        self._metadata = _SUBSCRIPTION % (len(name).to_bytes(2, "big") + name)
        self._line = line
        self._tally = tally
        self._member_id = ""
        self._generation = -1

    async def join(self) -> None:
        while True:
            answer = await self._line.ask(Api.JOIN_GROUP, latest(Api.JOIN_GROUP), self._join_request())
            self._member_id = answer.member_id or self._member_id
            if answer.error_code is ErrorCode.none:
                self._generation = answer.generation_id
                if await self._sync([one.member_id for one in answer.members]):
                    return
            elif answer.error_code in RETRIED:
                await asyncio.sleep(RETRY_S)
            elif answer.error_code is ErrorCode.unknown_member_id:
                self._member_id = ""
            else:
                assert answer.error_code is ErrorCode.member_id_required, answer

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None:
        heartbeats = _Heartbeats(self._line, Api.HEARTBEAT, self._tally)
        frame = self._heartbeat()
        await asyncio.sleep(random.random() * CLASSIC_INTERVAL_S)
        while not until():
            answer = await heartbeats.send(frame)
            if answer is not None and answer.error_code is not ErrorCode.none:
                self._tally.rebalances += 1
                await self.join()
                frame = self._heartbeat()
            await asyncio.sleep(CLASSIC_INTERVAL_S)

    def _join_request(self) -> dict[str, Any]:
        return {
            "group_id": self._group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "member_id": self._member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": self._metadata}],
        }

    async def _sync(self, member_ids: Sequence[str]) -> bool:
        """False: the group rebalances again already. Only the leader is told the members."""
        fields = {
            "group_id": self._group,
            "generation_id": self._generation,
            "member_id": self._member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": one, "assignment": b""} for one in member_ids],
        }
        answer = await self._line.ask(Api.SYNC_GROUP, latest(Api.SYNC_GROUP), fields)
        return bool(answer.error_code is ErrorCode.none)

    def _heartbeat(self) -> bytes:
        fields = {"group_id": self._group, "generation_id": self._generation, "member_id": self._member_id}
        return encode_request(Api.HEARTBEAT, latest(Api.HEARTBEAT), 1, fields)


class NewMember:
    """Takes what it is given, and says so at once, as the Java client does; otherwise it speaks once an interval."""

    def __init__(self, group: str, topic: str, line: Line, tally: Tally) -> None:
        self._fields: dict[str, Any] = {"group_id": group, "member_id": str(uuid4()), "rebalance_timeout": -1}
        self._topic = topic
        self._tally = tally
        self._heartbeats = _Heartbeats(line, Api.CONSUMER_GROUP_HEARTBEAT, tally)
        self._epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}
        self.interval_s = 5.0

    async def join(self) -> None:
        first = {"rebalance_timeout": REBALANCE_MS, "subscribed_topic_names": [self._topic], "topic_partitions": []}
        while True:
            answer = await self._send({**first, "member_epoch": 0})
            assert answer is not None
            if answer.error_code is ErrorCode.none:
                break
            assert answer.error_code in RETRIED, answer
            await asyncio.sleep(RETRY_S)
        await self._take(answer)

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None:
        await asyncio.sleep(random.random() * self.interval_s)
        while not until():
            before = self._epoch, self.owned
            await self.heartbeat()
            if before != (self._epoch, self.owned):
                self._tally.rebalances += 1
            await asyncio.sleep(self.interval_s)

    async def heartbeat(self) -> None:
        answer = await self._send({"member_epoch": self._epoch, "topic_partitions": None})
        if answer is None:
            return
        if answer.error_code in RETRIED:
            self._tally.rebalances += 1
        elif answer.error_code is not ErrorCode.none:
            self._tally.rebalances += 1
            self.owned = {}
            await self.join()
        else:
            await self._take(answer)

    async def _take(self, answer: Any) -> None:
        """Until nothing new is given."""
        while True:
            self._epoch = answer.member_epoch
            self.interval_s = answer.heartbeat_interval.total_seconds()
            if answer.assignment is None:
                return
            given = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
            if given == self.owned:
                return
            self.owned = given
            owned = [{"topic_id": topic, "partitions": partitions} for topic, partitions in given.items()]
            again = await self._send({"member_epoch": self._epoch, "topic_partitions": owned})
            if again is None or again.error_code is not ErrorCode.none:
                return
            answer = again

    async def _send(self, fields: dict[str, Any]) -> Any | None:
        api = Api.CONSUMER_GROUP_HEARTBEAT
        everything = {"subscribed_topic_names": None, **self._fields, **fields}
        return await self._heartbeats.send(encode_request(api, latest(api), 1, everything))
