"""When metadata names no leader although the controller has not elected another one yet."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from odradek.core.liveness.unreachable_leaders import DOUBT_GRACES
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.node.unreachable_leaders import UnreachableLeaders
from tests.unit.broker.fake_broker import broker_image
from tests.unit.server.peer_stage import LoopClock, Node, Scenario, ScriptedNode, play

__all__ = ["play"]

Play = Callable[[Scenario], None]
GRACE_SECONDS = 0.3
LONG_GRACE_SECONDS = 2.0
LEADER = 2
EPOCH = broker_image(LEADER).epoch


class Cluster:
    """The image as one broker knows it."""

    def __init__(self) -> None:
        self.leader = broker_image(LEADER)

    def image(self) -> ClusterImage:
        return replace(EMPTY_IMAGE, brokers={LEADER: self.leader})

    def leaders(self, grace_seconds: float = GRACE_SECONDS) -> UnreachableLeaders:
        return UnreachableLeaders(grace_seconds, image=self.image, clock=LoopClock())


def test_leader_that_refuses_connections_is_doubted_for_a_limited_time(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            leaders = Cluster().leaders()
            assert not leaders.ids()
            leaders.on_disconnect(LEADER, EPOCH, "localhost", node.port)
            assert set(leaders.ids()) == {LEADER}
            await asyncio.sleep(GRACE_SECONDS)
            assert set(leaders.ids()) == {LEADER}
            await asyncio.sleep(GRACE_SECONDS * DOUBT_GRACES)
            assert not leaders.ids()

    play(scenario)


def test_doubt_ends_when_the_leader_responds(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            leaders = Cluster().leaders(LONG_GRACE_SECONDS)
            leaders.on_disconnect(LEADER, EPOCH, "localhost", node.port)
            assert set(leaders.ids()) == {LEADER}
            # Sooner than doubts end by themselves.
            async with asyncio.timeout(LONG_GRACE_SECONDS * DOUBT_GRACES - 1):
                while leaders.ids():
                    await asyncio.sleep(0.01)
            await leaders.stop()

    play(scenario)


def test_leader_that_accepts_and_closes_stays_doubted(play: Play) -> None:
    """As a process does that is being killed: its listening socket may go last."""

    def hang_up(node: Node, version: int, correlation_id: int) -> None:
        node.transport.abort()

    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_versions = hang_up
            leaders = Cluster().leaders()
            leaders.on_disconnect(LEADER, EPOCH, "localhost", node.port)
            await asyncio.sleep(GRACE_SECONDS)
            assert set(leaders.ids()) == {LEADER}
            await leaders.stop()

    play(scenario)


def test_doubt_ends_with_the_registration(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            cluster = Cluster()
            leaders = cluster.leaders()
            leaders.on_disconnect(LEADER, EPOCH, "localhost", node.port)
            cluster.leader = replace(cluster.leader, epoch=EPOCH + 1)
            assert not leaders.ids()
            leaders.on_disconnect(LEADER, EPOCH + 1, "localhost", node.port)
            cluster.leader = replace(cluster.leader, fenced=True)
            assert not leaders.ids()
            await leaders.stop()

    play(scenario)


def test_connection_to_an_earlier_registration_is_no_evidence(play: Play) -> None:
    """This broker has not reached the new process yet: a firewall may refuse connections to it."""

    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            cluster = Cluster()
            cluster.leader = replace(cluster.leader, epoch=EPOCH + 1)
            leaders = cluster.leaders()
            leaders.on_disconnect(LEADER, EPOCH, "localhost", node.port)
            assert not leaders.ids()

    play(scenario)


def test_without_a_grace_period_no_leader_is_doubted(play: Play) -> None:
    async def scenario() -> None:
        leaders = Cluster().leaders(0.0)
        leaders.on_disconnect(LEADER, EPOCH, "localhost", 1)
        assert not leaders.ids()

    play(scenario)
