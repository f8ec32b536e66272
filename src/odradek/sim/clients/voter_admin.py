"""Removes voters from the quorum and adds them again (KIP-853), as an operator does to replace a controller."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_LISTENER: Final = "CONTROLLER"
_REMOVE_PROBABILITY: Final = 0.6


class VoterAdmin:
    def __init__(self, client: ClusterClient, voters: Sequence[tuple[int, str, int, UUID]]) -> None:
        """`voters`: id, host, port and directory id of each initial voter."""
        self._client: Final = client
        self._voters: Final = tuple(voters)
        # Voters that it has removed, or may have.
        self._out: Final[set[int]] = set()
        self.is_finishing = False

    async def run(self, interval_seconds: float) -> None:
        """At the end all initial voters are in the voter set again."""
        random = self._client.random
        while not self.is_finishing:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            place = random.randrange(len(self._voters))
            if not self._out and random.random() < _REMOVE_PROBABILITY:
                await self._remove(place)
            elif self._out:
                await self._add(min(self._out))
        while self._out:
            await self._add(min(self._out))
            await self._client.back_off()

    async def _remove(self, place: int) -> None:
        node_id, _, _, directory_id = self._voters[place]
        self._out.add(place)

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "RemoveRaftVoterRequest", cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
            )

        await self._send_request(f"remove voter {node_id}", ApiKey.REMOVE_RAFT_VOTER, build)

    async def _add(self, place: int) -> None:
        node_id, host, port, directory_id = self._voters[place]

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "AddRaftVoterRequest",
                cluster_id=None,
                timeout=milliseconds(1500),
                voter_id=node_id,
                voter_directory_id=directory_id,
                listeners=(chosen.new("Listener", name=_LISTENER, host=host, port=port),),
                ack_when_committed=True,
            )

        code = await self._send_request(f"add voter {node_id}", ApiKey.ADD_RAFT_VOTER, build)
        if code in (ErrorCode.none, ErrorCode.duplicate_voter):
            self._out.discard(place)

    async def _send_request(self, what: str, api_key: int, build: Callable[[Schema], Message]) -> ErrorCode | None:
        """None: no response, so the outcome is unknown."""
        client = self._client
        client.note(f"requests: {what}")
        try:
            response = await client.send_request(await client.connect_to_any(), api_key, build)
        except RequestFailed as failure:
            client.note(f"gets no response: {failure}")
            return None
        code: ErrorCode = response.error_code
        client.note(f"receives {code.name}")
        return code
