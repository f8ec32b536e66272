"""One large group of the consumer protocol: the time until every member has its final assignment."""

import asyncio
import time

import uvloop

from bench import coordinators
from bench.groups.cluster import addresses, create_topic, three_brokers
from bench.groups.members import ConsumerMember, Tally
from bench.raw_connection import connect
from tests.cluster.real_cluster import RealCluster

TOPIC = "large"
PARTITIONS_EACH = 2
ASSIGNED_S_MAX = 120.0


def measure(members: int) -> tuple[float, float]:
    """Returns the seconds from the first join until the partitions are evenly assigned, and the heartbeat interval."""
    with three_brokers() as cluster, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        create_topic(cluster, TOPIC, members * PARTITIONS_EACH)
        return runner.run(_measure(cluster, members))


async def _measure(cluster: RealCluster, count: int) -> tuple[float, float]:
    address = await coordinators.find(coordinators.GROUP, "large", addresses(cluster))
    members = [ConsumerMember("large", TOPIC, await connect(address), Tally()) for _ in range(count)]
    began_at = time.monotonic()

    async def run_member(member: ConsumerMember) -> None:
        """Sends one heartbeat per interval after joining, until all members have their share."""
        await member.join()
        while not _is_assigned(members):
            await asyncio.sleep(member.interval_s)
            await member.heartbeat()

    async with asyncio.timeout(ASSIGNED_S_MAX), asyncio.TaskGroup() as tasks:
        member_tasks = [tasks.create_task(run_member(member)) for member in members]
        while not _is_assigned(members):
            await asyncio.sleep(0.05)
        took = time.monotonic() - began_at
        for task in member_tasks:
            task.cancel()
    return took, members[0].interval_s


def _is_assigned(members: list[ConsumerMember]) -> bool:
    owned = [(topic, index) for member in members for topic, partitions in member.owned.items() for index in partitions]
    return len(owned) == len(set(owned)) == len(members) * PARTITIONS_EACH and all(
        sum(map(len, member.owned.values())) == PARTITIONS_EACH for member in members
    )
