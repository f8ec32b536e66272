import asyncio
import socket
from collections.abc import Callable

import pytest

from odradek.client.address import Address
from odradek.console import pulse as feeling
from odradek.console.pulse import Pulse
from odradek.console.readings.brokers import state_of
from odradek.console.readings.health import health_of
from tests.unit.console.sights import partition, sight, topic

pytestmark = pytest.mark.timeout(30)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


class Broker:
    """Listens, says nothing, and hangs up when it is told to."""

    def __init__(self) -> None:
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writers.append(writer)

        self.server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def hang_up(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def die(self) -> None:
        self.server.close()
        self.hang_up()


def test_a_broker_that_dies_is_felt_and_so_is_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeling, "AGAIN_S", 0.02)
    changes: list[int] = []

    async def feel() -> None:
        broker = Broker()
        await broker.start()
        pulse = Pulse(lambda: changes.append(1))
        pulse.follow({3: Address("127.0.0.1", broker.port)})
        await until(lambda: len(broker.writers) == 1)
        # Ended for want of use: it takes the next one, and nobody hears of it.
        broker.hang_up()
        await until(lambda: len(broker.writers) == 1)
        assert (pulse.lost_since_ms, changes) == ({}, [])
        broker.die()
        await until(lambda: 3 in pulse.lost_since_ms)
        await broker.start()
        await until(lambda: 3 not in pulse.lost_since_ms)
        assert len(changes) == 2
        broker.die()
        await until(lambda: 3 in pulse.lost_since_ms)
        pulse.follow({})
        assert pulse.lost_since_ms == {}

    asyncio.run(feel())


def test_who_refuses_from_the_start_is_lost_and_who_is_out_of_reach_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeling, "AGAIN_S", 0.02)
    monkeypatch.setattr(feeling, "CONNECT_S", 0.05)

    async def feel() -> None:
        with socket.socket() as nobody, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            nobody.bind(("127.0.0.1", 0))
            pulse = Pulse(lambda: None)
            # Beyond its backlog a listener answers nothing.
            crowd = [socket.socket() for _ in range(4)]
            for one in crowd:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            pulse.follow({1: Address(*nobody.getsockname()), 2: Address(*full.getsockname())})
            await until(lambda: 1 in pulse.lost_since_ms)
            await asyncio.sleep(0.2)
            assert list(pulse.lost_since_ms) == [1]
            pulse.follow({})
            for one in crowd:
                one.close()

    asyncio.run(feel())


def test_what_is_felt_is_told_before_the_cluster_notices_and_not_after() -> None:
    seen = sight(topic("orders", partition(0, (1, 2))), lost_since_ms={2: 0})
    assert health_of(seen).sentence.startswith("Broker 2 has been unresponsive since ")
    assert state_of(seen, 2).text.startswith("unresponsive since ")
    noticed = sight(topic("orders", partition(0, (1, 2), isr=(1,))), down=(2,), lost_since_ms={2: 0})
    assert noticed.lost == []
    assert state_of(noticed, 2).text == "fenced"
