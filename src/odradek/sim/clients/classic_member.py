"""A member of a classic group: it joins, assigns partitions if it is the group leader, sends heartbeats and commits.

Sometimes it pauses for longer than its session timeout and then continues with its old generation.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.group_client import GroupClient
from odradek.sim.group_history import NO_GENERATION, Share
from odradek.sim.history import History
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_SESSION_MS: Final = 1500
_REBALANCE_MS: Final = 2000
_HEARTBEAT_SECONDS: Final = 0.2
_PAUSE_PROBABILITY: Final = 0.02
_PAUSE_SECONDS: Final = (1.0, 4.0)
# The coordinator is elsewhere. Other errors end the membership or only the generation.
_COORDINATOR_MOVED: Final = frozenset(
    (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
)


class ClassicMember:
    def __init__(
        self, client: ClusterClient, history: History, group: str, partitions: Sequence[TopicPartition]
    ) -> None:
        """The members share `partitions`, identified by their indexes."""
        self._groups: Final = GroupClient(client, history, group)
        self._client: Final = client
        self._history: Final = history
        self._partitions: Final = tuple(partitions)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._has_finished = False
        self.is_finishing = False

    async def run(self) -> None:
        """Once `is_finishing` is set, returns after one successful heartbeat or commit."""
        while not self._has_finished:
            try:
                share = await self._join()
                await self._work(share)
            except RequestFailed as failure:
                self._client.note(f"is no member: {failure}")
                self._groups.forget_coordinator()
                await self._client.back_off()

    async def _join(self) -> tuple[int, ...]:
        response = await self._send_request(ApiKey.JOIN_GROUP, self._join_request, _REBALANCE_MS / 1000 + 1)
        if response.error_code is ErrorCode.member_id_required:
            self._member_id = response.member_id
            response = await self._send_request(ApiKey.JOIN_GROUP, self._join_request, _REBALANCE_MS / 1000 + 1)
        self._check(response.error_code)
        self._member_id, self._generation = response.member_id, response.generation_id
        shares: dict[str, list[int]] = {member.member_id: [] for member in response.members}
        for place in range(len(self._partitions)) if shares else ():
            shares[sorted(shares)[place % len(shares)]].append(place)
        response = await self._send_request(
            ApiKey.SYNC_GROUP, lambda chosen: self._sync_request(chosen, shares), _REBALANCE_MS / 1000
        )
        self._check(response.error_code)
        share = tuple(int(place) for place in response.assignment.split(b",") if place)
        self._history.groups.shares.append(
            Share(
                group=self._groups.group,
                member=self._member_id,
                generation=self._generation,
                share=share,
                ended=self._client.now,
            )
        )
        self._client.note(f"has {share} in generation {self._generation}")
        return share

    async def _work(self, share: tuple[int, ...]) -> None:
        """Sends heartbeats and commits until the generation ends."""
        random = self._client.random
        has_paused = False
        while True:
            is_last = self.is_finishing
            if share and (has_paused or random.random() < 0.5):
                place = random.choice(share)
                code = await self._groups.commit(self._partitions[place], self._member_id, self._generation)
            else:
                response = await self._send_request(ApiKey.HEARTBEAT, self._heartbeat)
                code = response.error_code
            if code is ErrorCode.rebalance_in_progress:
                return
            self._check(code)
            if is_last:
                self._has_finished = True
                return
            has_paused = not self.is_finishing and random.random() < _PAUSE_PROBABILITY
            await asyncio.sleep(
                random.uniform(*_PAUSE_SECONDS) if has_paused else random.expovariate(1 / _HEARTBEAT_SECONDS)
            )

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.none:
            return
        if code not in _COORDINATOR_MOVED and code is not ErrorCode.rebalance_in_progress:
            self._member_id, self._generation = "", NO_GENERATION
        raise RequestFailed(code.name)

    # ---- requests

    async def _send_request(
        self, api_key: int, build: Callable[[Schema], Message], extra_seconds: float = 0.0
    ) -> Message:
        connection = await self._groups.coordinator()
        return await self._client.send_request(connection, api_key, build, extra_seconds=extra_seconds)

    def _join_request(self, chosen: Schema) -> Message:
        return chosen.new(
            "JoinGroupRequest",
            group_id=self._groups.group,
            session_timeout=milliseconds(_SESSION_MS),
            rebalance_timeout=milliseconds(_REBALANCE_MS),
            member_id=self._member_id,
            protocol_type="sim",
            protocols=(chosen.new("JoinGroupRequestProtocol", name="in turn", metadata=b""),),
        )

    def _sync_request(self, chosen: Schema, shares: dict[str, list[int]]) -> Message:
        return chosen.new(
            "SyncGroupRequest",
            group_id=self._groups.group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="sim",
            protocol_name="in turn",
            assignments=tuple(
                chosen.new(
                    "SyncGroupRequestAssignment", member_id=member, assignment=",".join(map(str, share)).encode()
                )
                for member, share in shares.items()
            ),
        )

    def _heartbeat(self, chosen: Schema) -> Message:
        return chosen.new(
            "HeartbeatRequest",
            group_id=self._groups.group,
            generation_id=self._generation,
            member_id=self._member_id,
        )
