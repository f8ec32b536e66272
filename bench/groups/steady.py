"""Measures many groups that only send heartbeats: CPU time of the brokers, and rebalances."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import uvloop

from bench import coordinators
from bench.groups.cluster import addresses, create_topic, three_brokers
from bench.groups.members import ClassicMember, ConsumerMember, Member, Tally
from bench.raw_connection import RawConnection, connect
from odradek.client.address import Address
from tests.cluster.real_cluster import RealCluster

TOPIC = "steady"
PARTITIONS = 10
MEMBERS = 5
KINDS: dict[str, Callable[[str, str, RawConnection, Tally], Member]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
}
# Groups that join concurrently, so that all members have joined within a minute or two.
CONCURRENT_JOINS = 100
# Consumer groups receive their partitions one by one through heartbeats, every 5 s.
STEADY_S = 15.0
STEADY_TRIES_MAX = 20


@dataclass(frozen=True)
class Steady:
    core: float
    """Share of one core, for the three brokers together."""
    rebalances: int
    heartbeats_per_s: float
    longest_ms: float


def measure(kind: str, groups: int, seconds: float) -> Steady:
    with three_brokers() as cluster, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        create_topic(cluster, TOPIC, PARTITIONS)
        return runner.run(_measure(cluster, kind, groups, seconds))


async def _measure(cluster: RealCluster, kind: str, groups: int, seconds: float) -> Steady:
    tally, random = Tally(), Random(groups)
    is_over = False
    names = [f"{kind}-{number}" for number in range(groups)]
    addresses_by_group = await coordinators.find_all(coordinators.GROUP, names, addresses(cluster))
    join_slots = asyncio.Semaphore(CONCURRENT_JOINS)

    async def run_member(name: str, address: Address) -> None:
        """Sends heartbeats after joining, while other groups still join."""
        members = [KINDS[kind](name, TOPIC, await connect(address), tally) for _ in range(MEMBERS)]
        await asyncio.gather(*(member.join() for member in members))
        join_slots.release()
        await asyncio.gather(*(member.send_heartbeats(lambda: is_over, random) for member in members))

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            await join_slots.acquire()
            tasks.create_task(run_member(name, addresses_by_group[name]))
        for _ in range(CONCURRENT_JOINS):
            await join_slots.acquire()
        await _wait_until_steady(tally)
        tally.heartbeats, tally.longest_s = 0, 0.0
        began_at, before = time.monotonic(), _cpu_seconds(cluster)
        await asyncio.sleep(seconds)
        took = time.monotonic() - began_at
        measured = Steady(
            (_cpu_seconds(cluster) - before) / took,
            tally.rebalances,
            tally.heartbeats / took,
            tally.longest_s * 1000,
        )
        is_over = True
    return measured


async def _wait_until_steady(tally: Tally) -> None:
    """Waits until no group has rebalanced for a while."""
    for _ in range(STEADY_TRIES_MAX):
        tally.rebalances = 0
        await asyncio.sleep(STEADY_S)
        if not tally.rebalances:
            return
    raise AssertionError("the groups do not stop rebalancing")


def _cpu_seconds(cluster: RealCluster) -> float:
    return sum(node.cpu_seconds for node in cluster.nodes.values())
