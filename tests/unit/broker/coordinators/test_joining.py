"""Whoever asks a coordinator on another broker hears something in the end."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.broker_lanes import BrokerPeers
from odradek.broker.coordinators.joining import Joining
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from tests.unit.broker.coordinators.tally import run

HERE, THERE = 1, 2
PARTITIONS = frozenset((TopicPartition("t", 0),))


class Peers:
    def __init__(self, answer: Callable[[], Any]) -> None:
        self.asked = 0
        self._answer = answer

    async def ask(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        return self._answer()


def joining(peers: Peers) -> Joining:
    partition = SimpleNamespace(leader=THERE)
    image = SimpleNamespace(topics_by_name={TRANSACTION_STATE: SimpleNamespace(partitions={0: partition})})
    return Joining(
        HERE,
        cast(BrokerPeers, peers),
        image=lambda: cast(Any, image),
        partition_of=lambda _: 0,
        submit=lambda *_: pytest.fail("the coordinator is elsewhere"),
    )


def fail() -> None:
    raise RuntimeError("a fault")


@pytest.mark.parametrize("answer", [fail, lambda: SimpleNamespace()], ids=["not asked", "not understood"])
def test_a_fault_of_ours_is_told_as_if_the_connection_had_broken(answer: Callable[[], Any]) -> None:
    async def work() -> None:
        peers = Peers(answer)
        asking = joining(peers)
        asked = [asking.ask("x", 7, producer_epoch, PARTITIONS, adds=True) for producer_epoch in range(3)]
        refused = dict.fromkeys(PARTITIONS, ErrorCode.network_exception)
        assert await asyncio.wait_for(asyncio.gather(*asked), 5) == [refused] * 3
        # Of one transaction one at a time: an answer names it by its id.
        assert peers.asked == 3

    run(work())


def test_who_waits_when_the_broker_stops_is_told() -> None:
    async def work() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        class Silent(Peers):
            async def ask(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
                await never

        asking = joining(Silent(fail))
        asked = asyncio.ensure_future(asking.ask("x", 7, 0, PARTITIONS, adds=True))
        await asyncio.sleep(0.01)
        asking.stop()
        assert await asyncio.wait_for(asked, 5) == dict.fromkeys(PARTITIONS, ErrorCode.network_exception)

    run(work())
