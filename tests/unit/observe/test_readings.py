"""What coordinators tell of themselves does not depend on one that is loading."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from odradek.broker.coordinators.transactions import TransactionMachine
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.standing import Standing, State
from odradek.core.transactions.standing_records import record_of
from odradek.observe.coordinator_readings import coordination_families


def machine(*states: State) -> TransactionMachine:
    made = TransactionMachine(
        0,
        TransactionSettings(),
        coordinator_epoch=1,
        transaction_version=lambda: 2,
        new_producer_id=lambda: 1,
        send=lambda *_: None,
    )
    for number, state in enumerate(states):
        made.replay(record_of(f"id {number}", Standing(number, 1000, state=state), 2), number, 0)
    return made


def test_transactional_ids_are_counted_on_their_coordinator() -> None:
    hosts = [
        SimpleNamespace(is_active=True, machine=machine(State.ONGOING, State.EMPTY)),
        SimpleNamespace(is_active=False, machine=machine(State.ONGOING)),
        SimpleNamespace(is_active=True, machine=machine(State.ONGOING)),
    ]
    transactions = SimpleNamespace(coordinators=SimpleNamespace(hosts=lambda: iter(hosts)))
    coordination = cast(Any, SimpleNamespace(begun=(None, transactions)))
    (family,) = asyncio.run(coordination_families(coordination))
    assert {sample.labels["state"]: sample.value for sample in family.samples} == {"Empty": 1, "Ongoing": 2}
