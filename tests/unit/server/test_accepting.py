"""Connections above the rates of new connections: delayed in order, held, bounded in number."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.core.quotas.connections import UNLIMITED, ConnectionRates
from odradek.server import accepting
from odradek.server.accepting import PacedAdmission
from odradek.server.connection import Admission


class Connection:
    """As much of a connection as its admission needs."""

    def __init__(self, number: int, events: list[str], listener_name: str = "PLAINTEXT") -> None:
        self.peer_host = "10.0.0.1"
        self.peer = f"10.0.0.1:{number}"
        self.listener_name = listener_name
        self._number = number
        self._events = events

    def on_admitted(self) -> None:
        self._events.append(f"admitted {self._number}")

    def close(self) -> None:
        self._events.append(f"closed {self._number}")


class Stage:
    """The rate allows one connection in 20 ms."""

    def __init__(self, *, address_max: int = UNLIMITED, node_max: int = UNLIMITED) -> None:
        self.rates = ConnectionRates(1, 20)
        self.rates.change(node_max=node_max, listener_max={})
        self.rates.change_addresses({}, address_max)
        self.events: list[str] = []
        self.paced = PacedAdmission(
            self.rates, asyncio.get_running_loop().time, admit=lambda _: Admission.ADMITTED, waiting_max=3
        )

    def connect(self, number: int) -> tuple[Any, Admission]:
        connection: Any = Connection(number, self.events)
        return connection, self.paced.admit(connection)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 5))


def test_delayed_connections_are_admitted_in_order_and_bounded_in_number() -> None:
    async def scenario() -> None:
        stage = Stage(node_max=50)
        admissions = [stage.connect(number)[1] for number in range(5)]
        assert admissions == [*[Admission.WAITING] * 3, Admission.REJECTED, Admission.REJECTED]
        assert len(stage.paced.connections()) == 3
        while len(stage.events) < 3:
            await asyncio.sleep(0.005)
        assert stage.events == ["admitted 0", "admitted 1", "admitted 2"]
        assert stage.paced.connections() == []

    run(scenario)


def test_connection_that_closes_while_it_waits_is_not_admitted() -> None:
    async def scenario() -> None:
        stage = Stage(node_max=50)
        connections = [stage.connect(number)[0] for number in range(3)]
        stage.paced.release(connections[1])
        while len(stage.events) < 2:
            await asyncio.sleep(0.005)
        assert stage.events == ["admitted 0", "admitted 2"]

    run(scenario)


def test_connection_above_the_rate_of_its_address_is_closed_after_the_delay() -> None:
    async def scenario() -> None:
        stage = Stage(address_max=50)
        connection, admission = stage.connect(0)
        assert (admission, stage.events) == (Admission.WAITING, [])
        assert stage.paced.connections() == [connection]
        while not stage.events:
            await asyncio.sleep(0.005)
        assert stage.events == ["closed 0"]
        stage.paced.release(connection)
        assert stage.paced.connections() == []

    run(scenario)


def test_number_of_held_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "HELD_MAX", 2)

    async def scenario() -> None:
        stage = Stage(address_max=1)
        admissions = [stage.connect(number)[1] for number in range(3)]
        assert admissions == [Admission.WAITING, Admission.WAITING, Admission.REJECTED]

    run(scenario)
