"""Many groups that do nothing but send heartbeats: what that costs the brokers, and whether anybody rebalances."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import uvloop

from bench import coordinators
from bench.groups.cluster import addresses, create_topic, three_brokers
from bench.groups.members import ClassicMember, Member, NewMember, Tally
from bench.lines import Line, connect
from odradek.client.address import Address
from tests.cluster.real_cluster import RealCluster

TOPIC = "steady"
PARTITIONS = 10
MEMBERS = 5
KINDS: dict[str, Callable[[str, str, Line, Tally], Member]] = {"classic": ClassicMember, "consumer": NewMember}
# Groups that join at the same time, for the members to be there within a minute or two.
JOINING = 100
# Those of the consumer protocol are given their partitions one by one, and hear of it by heartbeats, every 5 s.
CALM_S = 15.0
CALM_TRIES_MAX = 20


@dataclass(frozen=True)
class Steady:
    core: float
    """Of the three brokers together."""
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
    where = await coordinators.find_all(coordinators.GROUP, names, addresses(cluster))
    places = asyncio.Semaphore(JOINING)

    async def live(name: str, address: Address) -> None:
        """From its joining on it sends heartbeats, while others still join."""
        members = [KINDS[kind](name, TOPIC, await connect(address), tally) for _ in range(MEMBERS)]
        await asyncio.gather(*(member.join() for member in members))
        places.release()
        await asyncio.gather(*(member.send_heartbeats(lambda: is_over, random) for member in members))

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            await places.acquire()
            tasks.create_task(live(name, where[name]))
        for _ in range(JOINING):
            await places.acquire()
        await _until_calm(tally)
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


async def _until_calm(tally: Tally) -> None:
    """Everybody has what he is to have."""
    for _ in range(CALM_TRIES_MAX):
        tally.rebalances = 0
        await asyncio.sleep(CALM_S)
        if not tally.rebalances:
            return
    raise AssertionError("groups rebalance without end")


def _cpu_seconds(cluster: RealCluster) -> float:
    return sum(node.cpu_seconds for node in cluster.nodes.values())
