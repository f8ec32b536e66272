"""What consensus sends to others, and what becomes of it while there is no connection."""

import asyncio
from collections.abc import Callable
from uuid import UUID

from odradek.base.ids import ZERO_UUID
from odradek.config.listeners import Address
from odradek.core.raft.effects import Send
from odradek.core.raft.events import Event, RequestFailed
from odradek.core.raft.messages import FetchRequest
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.misconfiguration import MisconfigurationLog
from odradek.quorum.peers import Peers, bootstrap_ids
from tests.unit.server.peer_stage import API_VERSIONS, Node, Scenario, ScriptedNode, play, versions_response

__all__ = ["play"]

FETCH = 1
Play = Callable[[Scenario], None]


def name_fetch(node: Node, version: int, correlation_id: int) -> None:
    node.send_response(correlation_id, versions_response(version, ((FETCH, 4, 18), (API_VERSIONS, 0, 4))))


def fetch(destination: int, correlation_id: int, offset: int) -> Send:
    request = FetchRequest(
        cluster_id=None,
        replica=ReplicaKey(1, UUID(int=7)),
        current_leader_epoch=1,
        fetch_offset=offset,
        last_fetched_epoch=1,
        high_watermark=0,
        max_bytes=1000,
        max_wait_ms=10,
    )
    return Send(destination, (), correlation_id, request)


def test_outdated_fetch_is_not_sent_after_a_reconnect(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as slow, ScriptedNode() as quick:
            waiting: list[tuple[Node, int, int]] = []
            slow.on_versions = lambda *request: waiting.append(request)
            quick.on_versions = name_fetch
            places = [Address("localhost", slow.port), Address("localhost", quick.port)]
            to_slow, to_quick = bootstrap_ids(places)
            peers = Peers(
                MisconfigurationLog(1, "", (), ZERO_UUID),
                client_id="test",
                listener_name="CONTROLLER",
                bootstrap=places,
                request_timeout_seconds=5.0,
            )
            events: list[Event] = []
            peers.use(events.append)
            peers.send(fetch(to_slow, 1, offset=72))
            await slow.wait_until(lambda: bool(waiting))
            peers.send(fetch(to_quick, 2, offset=71))
            await quick.wait_until(lambda: bool(quick.requests))
            name_fetch(*waiting[0])
            while RequestFailed(to_slow, 1) not in events:
                await asyncio.sleep(0.01)
            assert slow.requests == []
            # The newest is sent, however long it has waited.
            peers.send(fetch(to_slow, 3, offset=71))
            await slow.wait_until(lambda: bool(slow.requests))
            await peers.close()

    play(scenario)
