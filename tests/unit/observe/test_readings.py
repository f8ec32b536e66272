"""Metrics of coordinators, while one of them is loading."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from odradek.broker.coordinators.transaction_service import TransactionShard
from odradek.core.transactions.metadata_records import record_of
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.transaction_metadata import State, TransactionMetadata
from odradek.observe.coordinator_readings import coordination_families


def new_shard(*states: State) -> TransactionShard:
    made = TransactionShard(
        0,
        TransactionSettings(),
        coordinator_epoch=1,
        transaction_version=lambda: 2,
        new_producer_id=lambda: 1,
        send=lambda *_: None,
    )
    for number, state in enumerate(states):
        made.replay(record_of(f"id {number}", TransactionMetadata(number, 1000, state=state), 2), number, 0)
    return made


def test_transactional_ids_are_counted_on_their_coordinator() -> None:
    contexts = [
        SimpleNamespace(is_active=True, shard=new_shard(State.ONGOING, State.EMPTY)),
        SimpleNamespace(is_active=False, shard=new_shard(State.ONGOING)),
        SimpleNamespace(is_active=True, shard=new_shard(State.ONGOING)),
    ]
    transactions = SimpleNamespace(runtime=SimpleNamespace(contexts=lambda: iter(contexts)))
    coordinators = cast(Any, SimpleNamespace(existing_services=(None, transactions)))
    (family,) = asyncio.run(coordination_families(coordinators))
    assert {sample.labels["state"]: sample.value for sample in family.samples} == {"Empty": 1, "Ongoing": 2}
