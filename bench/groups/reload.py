"""Measures the time from a coordinator's death until its successor serves all committed offsets."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

import uvloop

from bench import coordinators
from bench.groups.cluster import addresses, create_topic, three_brokers
from bench.raw_connection import ConnectionClosed, RawConnection, connect
from odradek.base.errors import ErrorCode
from odradek.base.java_hash import partition_of
from odradek.client.address import Address
from tests.apis import Api
from tests.cluster.real_cluster import RealCluster

TOPIC = "offsets"
PARTITIONS = 1000
COORDINATORS = 50
COMMIT_VERSION, FETCH_VERSION = 9, 9
RETRY_S = 0.01
WAIT_S_MAX = 120.0


def measure(offsets: int) -> float:
    """Seconds from kill -9 until the successor responds, after it has loaded the offsets of all groups."""
    with three_brokers() as cluster, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        create_topic(cluster, TOPIC, PARTITIONS)
        return runner.run(_measure(cluster, list(islice(_groups(), offsets // PARTITIONS))))


def _groups() -> Iterator[str]:
    """Names of groups with the same partition of the internal topic."""
    return (name for name in map("reloaded-{}".format, count()) if partition_of(name, COORDINATORS) == 0)


async def _measure(cluster: RealCluster, groups: list[str]) -> float:
    address = await coordinators.find(coordinators.GROUP, groups[0], addresses(cluster))
    connection = await connect(address)
    for group in groups:
        await _commit(connection, group)
    victim = next(node for node in cluster.nodes.values() if node.address == address)
    others = [one for one in addresses(cluster) if one != address]
    began_at = time.monotonic()
    victim.kill()
    async with asyncio.timeout(WAIT_S_MAX):
        await _wait_for_offsets(groups[0], others, [0])
        took = time.monotonic() - began_at
        for group in groups:
            await _wait_for_offsets(group, others, range(PARTITIONS))
    return took


async def _commit(connection: RawConnection, group: str) -> None:
    partitions = [
        {"partition_index": index, "committed_offset": index, "committed_leader_epoch": -1}
        for index in range(PARTITIONS)
    ]
    topics = [{"name": TOPIC, "partitions": partitions}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            response = await connection.request(Api.OFFSET_COMMIT, COMMIT_VERSION, fields)
            if all(one.error_code is ErrorCode.none for one in response.topics[0].partitions):
                return
            await asyncio.sleep(RETRY_S)


async def _wait_for_offsets(group: str, brokers: list[Address], partitions: Sequence[int]) -> None:
    """Fetches and compares the offsets of these partitions."""
    while True:
        for broker in brokers:
            response = await _fetch(group, broker, partitions)
            if response is not None and response.error_code is ErrorCode.none:
                (topic,) = response.topics
                found = {one.partition_index: one.committed_offset for one in topic.partitions}
                assert found == {index: index for index in partitions}, f"offsets of {group} are missing"
                return
        await asyncio.sleep(RETRY_S)


async def _fetch(group: str, broker: Address, partitions: Sequence[int]) -> Any | None:
    try:
        connection = await connect(broker)
        topics = [{"name": TOPIC, "partition_indexes": partitions}]
        fields = {"groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]}
        response = await connection.request(Api.OFFSET_FETCH, FETCH_VERSION, fields)
    except ConnectionClosed:
        return None
    connection.close()
    return response.groups[0]
