import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, Unreachable
from odradek.console import watch as watch_module
from odradek.console.broker_probe import BrokerProbe
from odradek.console.gateway import Gateway
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.watch import Watch
from tests.unit.console.snapshots import partition, snapshot, topic


class FakeGateway:
    """Fake gateway to a cluster that can be made unreachable."""

    def __init__(self) -> None:
        self.is_unreachable = False
        self.calls = 0

    async def query(self, request: Callable[[Cluster], Any]) -> Any:
        if self.is_unreachable:
            raise Unreachable([ConnectionFailed(Address("host", 9092), "connection refused")])
        return request(cast(Cluster, self))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    fake = FakeGateway()

    def take_snapshot(cluster: Cluster, before: ClusterSnapshot | None) -> ClusterSnapshot:
        fake.calls += 1
        return snapshot(topic("orders", partition(0, (1,))))

    monkeypatch.setattr(BrokerProbe, "follow", lambda broker_probe, brokers: None)
    monkeypatch.setattr(watch_module, "take_snapshot", take_snapshot)
    monkeypatch.setattr(watch_module, "fetch_details", lambda cluster, seen: seen)
    monkeypatch.setattr(watch_module, "add_details", lambda seen, details: seen)
    return fake


def test_unreachable_cluster_is_reported_and_last_snapshot_is_kept(gateway: FakeGateway) -> None:
    async def watch() -> None:
        watched = Watch(cast(Gateway, gateway))
        seen = await watched.wait_for_next_snapshot()
        assert (seen, watched.failure) != (None, None)
        gateway.is_unreachable = True
        assert await watched.wait_for_next_snapshot() is seen
        assert watched.failure is not None
        assert watched.failure.startswith(
            "Cannot connect to any broker (host:9092: connection refused). Check that the cluster is running"
        )
        gateway.is_unreachable = False
        assert await watched.wait_for_next_snapshot() is not seen
        assert watched.failure is None
        await watched.close()

    asyncio.run(watch())


def test_many_pages_share_one_snapshot_of_the_cluster(gateway: FakeGateway) -> None:
    async def watch() -> int:
        watched = Watch(cast(Gateway, gateway))
        for _ in range(50):
            watched.touch()
            await asyncio.sleep(0)
        await watched.close()
        return gateway.calls

    assert asyncio.run(watch()) == 1


def test_unwatched_cluster_is_not_queried_and_stale_snapshot_is_not_shown(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "UNWATCHED_S", 0.01)
    monkeypatch.setattr(watch_module, "INTERVAL_S", 0.02)

    async def watch() -> None:
        watched = Watch(cast(Gateway, gateway))
        await watched.wait_for_next_snapshot()
        assert watched._task is not None
        await watched._task
        assert gateway.calls == 1
        assert watched.touch() is None
        await watched.close()

    asyncio.run(watch())


@pytest.mark.parametrize("is_first", [True, False])
def test_waiting_page_gets_a_snapshot_even_if_the_loop_is_late(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """The loop resumes after the page that waits counts as closed."""

    async def watch() -> None:
        watched = Watch(cast(Gateway, gateway))
        if not is_first:
            await watched.wait_for_next_snapshot()
        monkeypatch.setattr(watch_module, "UNWATCHED_S", 0.0)
        async with asyncio.timeout(30):
            assert await watched.wait_for_next_snapshot() is not None
        await watched.close()

    asyncio.run(watch())
