"""One large group of the consumer protocol: how long until each of its members has what it is to have."""

import asyncio
import time

import uvloop

from bench import coordinators
from bench.groups.cluster import addresses, create_topic, three_brokers
from bench.groups.members import NewMember, Tally
from bench.lines import connect
from tests.cluster.real_cluster import RealCluster

TOPIC = "large"
PARTITIONS_EACH = 2
ASSIGNED_S_MAX = 120.0


def measure(members: int) -> tuple[float, float]:
    """Seconds from the first join until every partition has one owner and nobody more than his share; the interval."""
    with three_brokers() as cluster, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        create_topic(cluster, TOPIC, members * PARTITIONS_EACH)
        return runner.run(_measure(cluster, members))


async def _measure(cluster: RealCluster, count: int) -> tuple[float, float]:
    address = await coordinators.find(coordinators.GROUP, "large", addresses(cluster))
    members = [NewMember("large", TOPIC, await connect(address), Tally()) for _ in range(count)]
    began_at = time.monotonic()

    async def live(member: NewMember) -> None:
        """Speaks once an interval, counted from its joining, until all have their share."""
        await member.join()
        while not _is_assigned(members):
            await asyncio.sleep(member.interval_s)
            await member.heartbeat()

    async with asyncio.timeout(ASSIGNED_S_MAX), asyncio.TaskGroup() as tasks:
        living = [tasks.create_task(live(member)) for member in members]
        while not _is_assigned(members):
            await asyncio.sleep(0.05)
        took = time.monotonic() - began_at
        for task in living:
            task.cancel()
    return took, members[0].interval_s


def _is_assigned(members: list[NewMember]) -> bool:
    owned = [(topic, index) for member in members for topic, partitions in member.owned.items() for index in partitions]
    return len(owned) == len(set(owned)) == len(members) * PARTITIONS_EACH and all(
        sum(map(len, member.owned.values())) == PARTITIONS_EACH for member in members
    )
