"""When clients are told that a leader is gone before the controller has said so, and when not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from odradek.broker.replicas.vanished_leaders import DOUBT_GRACES, VanishedLeaders
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from tests.unit.broker.fake_broker import broker_image
from tests.unit.server.peer_stage import LoopClock, Node, Scenario, ScriptedNode, play

__all__ = ["play"]

Play = Callable[[Scenario], None]
GRACE_SECONDS = 0.3
LONG_GRACE_SECONDS = 2.0
LEADER = 2


class Cluster:
    """The image as one broker knows it."""

    def __init__(self) -> None:
        self.leader = broker_image(LEADER)

    def image(self) -> ClusterImage:
        return replace(EMPTY_IMAGE, brokers={LEADER: self.leader})

    def vanished(self, grace_seconds: float = GRACE_SECONDS) -> VanishedLeaders:
        return VanishedLeaders(grace_seconds, image=self.image, clock=LoopClock())


def test_a_leader_that_refuses_is_gone_for_a_moment_only(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            vanished = Cluster().vanished()
            assert not vanished.ids()
            vanished.connection_lost(LEADER, "localhost", node.port)
            assert set(vanished.ids()) == {LEADER}
            await asyncio.sleep(GRACE_SECONDS)
            assert set(vanished.ids()) == {LEADER}
            await asyncio.sleep(GRACE_SECONDS * DOUBT_GRACES)
            assert not vanished.ids()

    play(scenario)


def test_one_that_answers_is_there(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            vanished = Cluster().vanished(LONG_GRACE_SECONDS)
            vanished.connection_lost(LEADER, "localhost", node.port)
            assert set(vanished.ids()) == {LEADER}
            # Sooner than doubts end by themselves.
            async with asyncio.timeout(LONG_GRACE_SECONDS * DOUBT_GRACES - 1):
                while vanished.ids():
                    await asyncio.sleep(0.01)
            await vanished.stop()

    play(scenario)


def test_one_that_accepts_and_hangs_up_is_not(play: Play) -> None:
    """As a process does that is being killed: its listening socket may go last."""

    def hang_up(node: Node, version: int, correlation_id: int) -> None:
        node.transport.abort()

    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_versions = hang_up
            vanished = Cluster().vanished()
            vanished.connection_lost(LEADER, "localhost", node.port)
            await asyncio.sleep(GRACE_SECONDS)
            assert set(vanished.ids()) == {LEADER}
            await vanished.stop()

    play(scenario)


def test_what_the_controller_says_counts_more(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            cluster = Cluster()
            vanished = cluster.vanished()
            vanished.connection_lost(LEADER, "localhost", node.port)
            cluster.leader = replace(cluster.leader, epoch=cluster.leader.epoch + 1)
            assert not vanished.ids()
            vanished.connection_lost(LEADER, "localhost", node.port)
            cluster.leader = replace(cluster.leader, fenced=True)
            assert not vanished.ids()
            await vanished.stop()

    play(scenario)


def test_without_a_grace_nobody_is_doubted(play: Play) -> None:
    async def scenario() -> None:
        vanished = Cluster().vanished(0.0)
        vanished.connection_lost(LEADER, "localhost", 1)
        assert not vanished.ids()

    play(scenario)
