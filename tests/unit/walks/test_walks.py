"""The walks of ARCHITECTURE.md: how many functions and modules a request passes through.

Run with `-s` to print the paths.
"""

import asyncio
from functools import partial
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.admin import Admin
from odradek.sim.clients.cluster_client import milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.group_client import GroupClient
from odradek.sim.clients.producer import produce_request
from odradek.sim.history import History
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.walks.call_chain import Function
from tests.unit.walks.simulated_cluster import Client, walk

INBOUND_FUNCTIONS_MAX: Final = 12
OUTBOUND_FUNCTIONS_MAX: Final = 6
MODULES_MAX: Final = 12
EXECUTE: Final = "Offsets.commit"
APPEND: Final = "PartitionLog.append_as_leader"
REPLICATE: Final = "PartitionLog.append_as_follower"
READ: Final = "PartitionLog.find_cached_batches"
CONTROL: Final = ("Controller.create_topics", "core/raft", "core/metadata/apply", "get_or_create")
COMMIT: Final = "Partition._acknowledge_committed"
ORDERS: Final = TopicPartition("orders", 0)


def show(name: str, modules: list[str], **parts: list[Function]) -> None:
    print(f"\n{name}: {len(modules)} modules")
    for part, functions in parts.items():
        print(f"  {part}: {len(functions)} functions")
        for function in functions:
            print(f"    {function}")
    for number, module in enumerate(modules, 1):
        print(f"  {number}. {module}")


def modules_of(functions: list[Function]) -> list[str]:
    return list(dict.fromkeys(function.module for function in functions))


async def create_topic(client: Client, replicas: int = 3) -> None:
    admin = Admin(client, History(), is_single_node=False)
    await admin.create(ORDERS.topic, 1, {"min.insync.replicas": "2"}, replicas)


async def produce(client: Client) -> None:
    data = bytes(build_batch([Record(b"key", b"value", 0)]))
    while True:
        try:
            leader, connection = await client.reach_leader(ORDERS)
            response = await client.send_request(
                connection,
                ApiKey.PRODUCE,
                partial(produce_request, partition=ORDERS, topic_id=leader.topic_id, data=data),
            )
        except RequestFailed:
            await client.back_off()
            continue
        if response.responses[0].partition_responses[0].error_code is ErrorCode.none:
            return
        await client.back_off()


def test_offset_commit_passes_at_most_twelve_functions_in_and_six_out() -> None:
    async def program(client: Client) -> None:
        await create_topic(client)
        group = GroupClient(client, History(), "group")
        while True:
            try:
                if await group.commit(ORDERS) is ErrorCode.none:
                    break
            except RequestFailed:
                pass
            await client.back_off()
        await asyncio.sleep(1.0)
        client.trace_next(ApiKey.OFFSET_COMMIT, EXECUTE, APPEND)
        assert await group.commit(ORDERS) is ErrorCode.none

    found = walk(program)
    inbound, outbound = found.inbound(EXECUTE, APPEND), found.outbound(COMMIT)
    # Between them, followers replicate the record as in the walk of Produce.
    modules = modules_of(inbound + outbound)
    show("OffsetCommit", modules, inbound=inbound, outbound=outbound)
    assert len(modules) <= MODULES_MAX
    assert len(inbound) <= INBOUND_FUNCTIONS_MAX
    assert len(outbound) <= OUTBOUND_FUNCTIONS_MAX


def test_produce_with_replicas_passes_at_most_twelve_modules() -> None:
    async def program(client: Client) -> None:
        await create_topic(client)
        await produce(client)
        await asyncio.sleep(1.0)
        client.trace_next(ApiKey.PRODUCE, APPEND, REPLICATE)
        await produce(client)

    found = walk(program)
    show("Produce", found.modules, inbound=found.inbound(APPEND), outbound=found.outbound(COMMIT))
    assert len(found.modules) <= MODULES_MAX


def test_fetch_passes_at_most_twelve_modules() -> None:
    async def program(client: Client) -> None:
        await create_topic(client)
        await produce(client)
        leader, connection = await client.reach_leader(ORDERS)

        def build(chosen: Schema) -> Message:
            partition = chosen.new(
                "FetchPartition", partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000_000
            )
            topic = chosen.new("FetchTopic", topic=ORDERS.topic, topic_id=leader.topic_id, partitions=(partition,))
            return chosen.new(
                "FetchRequest",
                max_wait=milliseconds(500),
                min_bytes=1,
                max_bytes=1_000_000,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=(topic,),
                forgotten_topics_data=(),
            )

        client.trace_next(ApiKey.FETCH, READ)
        response = await client.send_request(connection, ApiKey.FETCH, build)
        assert response.responses[0].partitions[0].records

    found = walk(program)
    show("Fetch", found.modules)
    assert len(found.modules) <= MODULES_MAX


def test_create_topics_passes_at_most_twelve_modules() -> None:
    async def program(client: Client) -> None:
        # Not counted: a request that another node forwards, and the Fetch of another voter, with which the commit may
        # depend on `quorum/apis/raft` as well.
        await client.use_active_controller()
        await asyncio.sleep(1.0)
        client.trace_next(ApiKey.CREATE_TOPICS, *CONTROL)
        await create_topic(client)

    found = walk(program)
    show("CreateTopics", found.modules)
    assert len(found.modules) <= MODULES_MAX
