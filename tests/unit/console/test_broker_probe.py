import asyncio
import socket
from collections.abc import Callable

import pytest

from odradek.client.address import Address
from odradek.console import broker_probe as broker_probe_module
from odradek.console.broker_probe import BrokerProbe
from odradek.console.readings.brokers import state_of
from odradek.console.readings.health import health_of
from tests.unit.console.snapshots import partition, snapshot, topic

pytestmark = pytest.mark.timeout(30)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


class Broker:
    """Accepts connections without responding, and closes them on demand."""

    def __init__(self) -> None:
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writers.append(writer)

        self.server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def close_connections(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def die(self) -> None:
        self.server.close()
        self.close_connections()


def test_broker_probe_reports_broker_death_and_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe_module, "AGAIN_S", 0.02)
    changes: list[int] = []

    async def probe() -> None:
        broker = Broker()
        await broker.start()
        broker_probe = BrokerProbe(lambda: changes.append(1))
        broker_probe.follow({3: Address("127.0.0.1", broker.port)})
        await until(lambda: len(broker.writers) == 1)
        # The broker closed an idle connection: the probe reconnects and reports no change.
        broker.close_connections()
        await until(lambda: len(broker.writers) == 1)
        assert (broker_probe.unresponsive_since_ms, changes) == ({}, [])
        broker.die()
        await until(lambda: 3 in broker_probe.unresponsive_since_ms)
        await broker.start()
        await until(lambda: 3 not in broker_probe.unresponsive_since_ms)
        assert len(changes) == 2
        broker.die()
        await until(lambda: 3 in broker_probe.unresponsive_since_ms)
        broker_probe.follow({})
        assert broker_probe.unresponsive_since_ms == {}

    asyncio.run(probe())


def test_broker_probe_reports_refused_connections_but_not_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe_module, "AGAIN_S", 0.02)
    monkeypatch.setattr(broker_probe_module, "CONNECT_S", 0.05)

    async def probe() -> None:
        with socket.socket() as refusing, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            refusing.bind(("127.0.0.1", 0))
            broker_probe = BrokerProbe(lambda: None)
            # A listener with a full backlog does not respond.
            backlog = [socket.socket() for _ in range(4)]
            for one in backlog:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            broker_probe.follow({1: Address(*refusing.getsockname()), 2: Address(*full.getsockname())})
            await until(lambda: 1 in broker_probe.unresponsive_since_ms)
            await asyncio.sleep(0.2)
            assert list(broker_probe.unresponsive_since_ms) == [1]
            broker_probe.follow({})
            for one in backlog:
                one.close()

    asyncio.run(probe())


def test_unresponsive_broker_is_shown_until_the_cluster_fences_it() -> None:
    seen = snapshot(topic("orders", partition(0, (1, 2))), unresponsive_since_ms={2: 0})
    assert health_of(seen).sentence.startswith("Broker 2 has been unresponsive since ")
    assert state_of(seen, 2).text.startswith("unresponsive since ")
    fenced = snapshot(topic("orders", partition(0, (1, 2), isr=(1,))), down=(2,), unresponsive_since_ms={2: 0})
    assert fenced.unresponsive == []
    assert state_of(fenced, 2).text == "fenced"
