import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, Unreachable
from odradek.console import watch as watch_module
from odradek.console.gateway import Gateway
from odradek.console.pulse import Pulse
from odradek.console.readings.sight import Sight
from odradek.console.watch import Watch
from tests.unit.console.sights import partition, sight, topic


class FakeGateway:
    """Fake gateway to a cluster that can be made unreachable."""

    def __init__(self) -> None:
        self.is_unreachable = False
        self.looks = 0

    async def ask(self, request: Callable[[Cluster], Any]) -> Any:
        if self.is_unreachable:
            raise Unreachable([ConnectionFailed(Address("host", 9092), "connection refused")])
        return request(cast(Cluster, self))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    fake = FakeGateway()

    def look(cluster: Cluster, before: Sight | None) -> Sight:
        fake.looks += 1
        return sight(topic("orders", partition(0, (1,))))

    monkeypatch.setattr(Pulse, "follow", lambda pulse, brokers: None)
    monkeypatch.setattr(watch_module, "look", look)
    monkeypatch.setattr(watch_module, "look_closer", lambda cluster, seen: seen)
    monkeypatch.setattr(watch_module, "with_details", lambda seen, details: seen)
    return fake


def test_unreachable_cluster_is_reported_and_last_sight_is_kept(gateway: FakeGateway) -> None:
    async def watch() -> None:
        watched = Watch(cast(Gateway, gateway))
        seen = await watched.renewed()
        assert (seen, watched.failure) != (None, None)
        gateway.is_unreachable = True
        assert await watched.renewed() is seen
        assert watched.failure is not None
        assert watched.failure.startswith(
            "Cannot connect to any broker (host:9092: connection refused). Check that the cluster is running"
        )
        gateway.is_unreachable = False
        assert await watched.renewed() is not seen
        assert watched.failure is None
        await watched.close()

    asyncio.run(watch())


def test_many_pages_share_one_look_at_the_cluster(gateway: FakeGateway) -> None:
    async def watch() -> int:
        watched = Watch(cast(Gateway, gateway))
        for _ in range(50):
            watched.touch()
            await asyncio.sleep(0)
        await watched.close()
        return gateway.looks

    assert asyncio.run(watch()) == 1


def test_unwatched_cluster_is_not_queried_and_stale_sight_is_not_shown(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "UNWATCHED_S", 0.01)
    monkeypatch.setattr(watch_module, "INTERVAL_S", 0.02)

    async def watch() -> None:
        watched = Watch(cast(Gateway, gateway))
        await watched.renewed()
        await asyncio.sleep(0.1)
        looks = gateway.looks
        await asyncio.sleep(0.1)
        assert gateway.looks == looks
        assert watched.touch() is None
        await watched.close()

    asyncio.run(watch())
