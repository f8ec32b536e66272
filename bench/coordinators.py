"""Finds the coordinator of a group or a transactional ID, retrying until there is one."""

import asyncio

from bench.raw_connection import ConnectionClosed, RawConnection, connect
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from tests.apis import Api, latest

GROUP, TRANSACTION = 0, 1
RETRY_S = 0.05
WAIT_S_MAX = 60.0


async def find(kind: int, key: str, brokers: list[Address]) -> Address:
    """The first request makes the broker create the internal topic, which takes a while."""
    return (await find_all(kind, [key], brokers))[key]


async def find_all(kind: int, keys: list[str], brokers: list[Address]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    async with asyncio.timeout(WAIT_S_MAX):
        while len(found) < len(keys):
            for broker in brokers:
                missing = [key for key in keys if key not in found]
                found.update(await _find_coordinators(kind, missing, broker))
            await asyncio.sleep(RETRY_S)
    return found


async def connect_to(kind: int, key: str, brokers: list[Address]) -> RawConnection:
    return await connect(await find(kind, key, brokers))


async def _find_coordinators(kind: int, keys: list[str], broker: Address) -> dict[str, Address]:
    if not keys:
        return {}
    try:
        connection = await connect(broker)
        fields = {"key_type": kind, "coordinator_keys": keys}
        response = await connection.request(Api.FIND_COORDINATOR, latest(Api.FIND_COORDINATOR), fields)
        connection.close()
    except ConnectionClosed:
        return {}
    return {one.key: Address(one.host, one.port) for one in response.coordinators if one.error_code is ErrorCode.none}
