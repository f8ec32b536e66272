"""Who coordinates a group or a transactional id, asked of any broker until one is there."""

import asyncio

from bench.lines import Line, LineClosed, connect
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests.apis import Api, latest

GROUP, TRANSACTION = 0, 1
RETRY_S = 0.05
WAIT_S_MAX = 60.0


async def find(kind: int, key: str, brokers: list[Address]) -> Address:
    """The first question makes the broker create the internal topic: it takes a while."""
    return (await find_all(kind, [key], brokers))[key]


async def find_all(kind: int, keys: list[str], brokers: list[Address]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    async with asyncio.timeout(WAIT_S_MAX):
        while len(found) < len(keys):
            for broker in brokers:
                missing = [key for key in keys if key not in found]
                found.update(await _ask(kind, missing, broker))
            await asyncio.sleep(RETRY_S)
    return found


async def connect_to(kind: int, key: str, brokers: list[Address]) -> Line:
    return await connect(await find(kind, key, brokers))


async def _ask(kind: int, keys: list[str], broker: Address) -> dict[str, Address]:
    if not keys:
        return {}
    try:
        line = await connect(broker)
        question = {"key_type": kind, "coordinator_keys": keys}
        answer = await line.ask(Api.FIND_COORDINATOR, latest(Api.FIND_COORDINATOR), question)
        line.close()
    except LineClosed:
        return {}
    return {one.key: Address(one.host, one.port) for one in answer.coordinators if one.error_code is ErrorCode.none}
