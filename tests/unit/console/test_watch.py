import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, Unreachable
from odradek.console import watch as watching
from odradek.console.gateway import Gateway
from odradek.console.pulse import Pulse
from odradek.console.readings.sight import Sight
from odradek.console.watch import Watch
from tests.unit.console.sights import partition, sight, topic


class Scripted:
    """A way to a cluster that answers, or not, as it is told."""

    def __init__(self) -> None:
        self.is_gone = False
        self.looks = 0

    async def ask(self, question: Callable[[Cluster], Any]) -> Any:
        if self.is_gone:
            raise Unreachable([ConnectionFailed(Address("host", 9092), "connection refused")])
        return question(cast(Cluster, self))


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()

    def look(cluster: Cluster, before: Sight | None) -> Sight:
        scripted.looks += 1
        return sight(topic("orders", partition(0, (1,))))

    monkeypatch.setattr(Pulse, "follow", lambda pulse, brokers: None)
    monkeypatch.setattr(watching, "look", look)
    monkeypatch.setattr(watching, "look_closer", lambda cluster, seen: seen)
    monkeypatch.setattr(watching, "with_details", lambda seen, details: seen)
    return scripted


def test_a_cluster_that_goes_is_told_and_what_was_seen_stays(way: Scripted) -> None:
    async def watch() -> None:
        watched = Watch(cast(Gateway, way))
        seen = await watched.renewed()
        assert (seen, watched.failure) != (None, None)
        way.is_gone = True
        assert await watched.renewed() is seen
        assert watched.failure is not None
        assert watched.failure.startswith(
            "Cannot connect to any broker (host:9092: connection refused). Check that the cluster is running"
        )
        way.is_gone = False
        assert await watched.renewed() is not seen
        assert watched.failure is None
        await watched.close()

    asyncio.run(watch())


def test_many_pages_make_one_look(way: Scripted) -> None:
    async def watch() -> int:
        watched = Watch(cast(Gateway, way))
        for _ in range(50):
            watched.touch()
            await asyncio.sleep(0)
        await watched.close()
        return way.looks

    assert asyncio.run(watch()) == 1


def test_nobody_is_asked_while_nobody_looks_and_old_news_are_not_shown(
    way: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "UNWATCHED_S", 0.01)
    monkeypatch.setattr(watching, "INTERVAL_S", 0.02)

    async def watch() -> None:
        watched = Watch(cast(Gateway, way))
        await watched.renewed()
        await asyncio.sleep(0.1)
        looks = way.looks
        await asyncio.sleep(0.1)
        assert way.looks == looks
        assert watched.touch() is None
        await watched.close()

    asyncio.run(watch())
