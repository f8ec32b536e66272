"""Requests to a coordinator on another broker always complete."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.add_partitions_sender import AddPartitionsSender
from odradek.broker.coordinators.broker_queues import BrokerPeers
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from tests.unit.broker.coordinators.tally import run

HERE, THERE = 1, 2
PARTITIONS = frozenset((TopicPartition("t", 0),))


class Peers:
    def __init__(self, response: Callable[[], Any]) -> None:
        self.requests = 0
        self._respond = response

    async def request(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
        self.requests += 1
        await asyncio.sleep(0)
        return self._respond()


def new_sender(peers: Peers) -> AddPartitionsSender:
    partition = SimpleNamespace(leader=THERE)
    image = SimpleNamespace(topics_by_name={TRANSACTION_STATE: SimpleNamespace(partitions={0: partition})})
    return AddPartitionsSender(
        HERE,
        cast(BrokerPeers, peers),
        image=lambda: cast(Any, image),
        partition_of=lambda _: 0,
        submit=lambda *_: pytest.fail("the coordinator is on another broker"),
    )


def fail() -> None:
    raise RuntimeError("a fault")


@pytest.mark.parametrize("response", [fail, lambda: SimpleNamespace()], ids=["request fails", "invalid response"])
def test_internal_error_completes_requests_with_network_exception(response: Callable[[], Any]) -> None:
    async def work() -> None:
        peers = Peers(response)
        sender = new_sender(peers)
        pending = [sender.add_or_verify("x", 7, producer_epoch, PARTITIONS, adds=True) for producer_epoch in range(3)]
        rejected = dict.fromkeys(PARTITIONS, ErrorCode.network_exception)
        assert [await asyncio.wait_for(one.wait(), 5) for one in pending] == [rejected] * 3
        # One request per transactional id at a time: the response names it by its id.
        assert peers.requests == 3

    run(work())


def test_stop_completes_pending_requests() -> None:
    async def work() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        class Unresponsive(Peers):
            async def request(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
                await never

        sender = new_sender(Unresponsive(fail))
        pending = asyncio.ensure_future(sender.add_or_verify("x", 7, 0, PARTITIONS, adds=True).wait())
        await asyncio.sleep(0.01)
        sender.stop()
        assert await asyncio.wait_for(pending, 5) == dict.fromkeys(PARTITIONS, ErrorCode.network_exception)

    run(work())
