"""Group members of both protocols without a client library: they join, send heartbeats, and rejoin.

A repeated heartbeat costs almost nothing, so thousands of members fit into one process next to the measured brokers.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from uuid import UUID, uuid4

from bench.raw_connection import RawConnection
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
# Version 1 of the subscription: topics, no user data, no owned partitions.
_SUBSCRIPTION = b"\0\1" + b"\0\0\0\1" + b"%b" + b"\xff\xff\xff\xff" + b"\0\0\0\0"


@dataclass
class Tally:
    """Totals of all members."""

    heartbeats: int = 0
    rebalances: int = 0
    """Rejoins, epoch changes and unexpected errors."""
    longest_s: float = 0.0


class Member(Protocol):
    async def join(self) -> None: ...

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None: ...


class _Heartbeats:
    """Repeats the same request while the response is the same."""

    def __init__(self, connection: RawConnection, api: Api, tally: Tally) -> None:
        self._connection = connection
        self._api = api
        self._tally = tally
        self._expected = b""

    async def send(self, frame: bytes) -> Any | None:
        """Returns None if the response is unchanged."""
        began_at = time.perf_counter()
        payload = await self._connection.send(frame)
        self._tally.longest_s = max(self._tally.longest_s, time.perf_counter() - began_at)
        self._tally.heartbeats += 1
        if payload == self._expected:
            return None
        response = decode_response(self._api, latest(self._api), payload)
        if response.error_code is ErrorCode.none:
            self._expected = payload
        return response


class ClassicMember:
    """The leader assigns nothing, because the coordinator does not interpret assignments."""

    def __init__(self, group: str, topic: str, connection: RawConnection, tally: Tally) -> None:
        self._group = group
        name = topic.encode()
        self._metadata = _SUBSCRIPTION % (len(name).to_bytes(2, "big") + name)
        self._connection = connection
        self._tally = tally
        self._member_id = ""
        self._generation = -1

    async def join(self) -> None:
        while True:
            response = await self._connection.request(Api.JOIN_GROUP, latest(Api.JOIN_GROUP), self._join_request())
            self._member_id = response.member_id or self._member_id
            if response.error_code is ErrorCode.none:
                self._generation = response.generation_id
                if await self._sync([one.member_id for one in response.members]):
                    return
            elif response.error_code in RETRIED:
                await asyncio.sleep(RETRY_S)
            elif response.error_code is ErrorCode.unknown_member_id:
                self._member_id = ""
            else:
                assert response.error_code is ErrorCode.member_id_required, response

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None:
        heartbeats = _Heartbeats(self._connection, Api.HEARTBEAT, self._tally)
        frame = self._heartbeat()
        await asyncio.sleep(random.random() * CLASSIC_INTERVAL_S)
        while not until():
            response = await heartbeats.send(frame)
            if response is not None and response.error_code is not ErrorCode.none:
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
        """Returns False if the group rebalances again. Only the leader receives the members."""
        fields = {
            "group_id": self._group,
            "generation_id": self._generation,
            "member_id": self._member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": one, "assignment": b""} for one in member_ids],
        }
        response = await self._connection.request(Api.SYNC_GROUP, latest(Api.SYNC_GROUP), fields)
        return bool(response.error_code is ErrorCode.none)

    def _heartbeat(self) -> bytes:
        fields = {"group_id": self._group, "generation_id": self._generation, "member_id": self._member_id}
        return encode_request(Api.HEARTBEAT, latest(Api.HEARTBEAT), 1, fields)


class ConsumerMember:
    """Acknowledges a new assignment at once, as the Java client does; otherwise sends one heartbeat per interval."""

    def __init__(self, group: str, topic: str, connection: RawConnection, tally: Tally) -> None:
        self._fields: dict[str, Any] = {"group_id": group, "member_id": str(uuid4()), "rebalance_timeout": -1}
        self._topic = topic
        self._tally = tally
        self._heartbeats = _Heartbeats(connection, Api.CONSUMER_GROUP_HEARTBEAT, tally)
        self._epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}
        self.interval_s = 5.0

    async def join(self) -> None:
        first = {"rebalance_timeout": REBALANCE_MS, "subscribed_topic_names": [self._topic], "topic_partitions": []}
        while True:
            response = await self._send({**first, "member_epoch": 0})
            assert response is not None
            if response.error_code is ErrorCode.none:
                break
            assert response.error_code in RETRIED, response
            await asyncio.sleep(RETRY_S)
        await self._apply_assignment(response)

    async def send_heartbeats(self, until: Callable[[], bool], random: Random) -> None:
        await asyncio.sleep(random.random() * self.interval_s)
        while not until():
            before = self._epoch, self.owned
            await self.heartbeat()
            if before != (self._epoch, self.owned):
                self._tally.rebalances += 1
            await asyncio.sleep(self.interval_s)

    async def heartbeat(self) -> None:
        response = await self._send({"member_epoch": self._epoch, "topic_partitions": None})
        if response is None:
            return
        if response.error_code in RETRIED:
            self._tally.rebalances += 1
        elif response.error_code is not ErrorCode.none:
            self._tally.rebalances += 1
            self.owned = {}
            await self.join()
        else:
            await self._apply_assignment(response)

    async def _apply_assignment(self, response: Any) -> None:
        """Acknowledges assignments until there is no new one."""
        while True:
            self._epoch = response.member_epoch
            self.interval_s = response.heartbeat_interval.total_seconds()
            if response.assignment is None:
                return
            given = {one.topic_id: one.partitions for one in response.assignment.topic_partitions}
            if given == self.owned:
                return
            self.owned = given
            owned = [{"topic_id": topic, "partitions": partitions} for topic, partitions in given.items()]
            again = await self._send({"member_epoch": self._epoch, "topic_partitions": owned})
            if again is None or again.error_code is not ErrorCode.none:
                return
            response = again

    async def _send(self, fields: dict[str, Any]) -> Any | None:
        api = Api.CONSUMER_GROUP_HEARTBEAT
        everything = {"subscribed_topic_names": None, **self._fields, **fields}
        return await self._heartbeats.send(encode_request(api, latest(api), 1, everything))
