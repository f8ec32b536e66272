"""Metrics of this broker's coordinators: groups and transactions by state, and the last rebalances of each group.

Coordinator partitions are read one by one, so that other work runs in between.
"""

import asyncio
from collections import Counter
from typing import Any, Final

from odradek.broker.coordinators.broker_coordinators import BrokerCoordinators
from odradek.broker.coordinators.group_service import GroupService, GroupShard
from odradek.broker.coordinators.transaction_service import TransactionService, TransactionShard
from odradek.observe.families import NO_LABELS, Family, Kind, attribute, gauge, own

_DOMAIN: Final = "kafka.coordinator.group"
_GROUPS: Final = "GroupMetadataManager"
_OF_COORDINATORS: Final = "group-coordinator-metrics"
_CLASSIC_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
_CONSUMER_STATES: Final = ("Assigning", "Reconciling", "Stable", "Empty", "Dead")


async def coordination_families(coordinators: BrokerCoordinators) -> list[Family]:
    """Empty until this broker has coordinated a group or a transaction."""
    groups, transactions = coordinators.existing_services
    return [
        *([] if groups is None else await _group_families(groups)),
        *([] if transactions is None else await _transaction_families(transactions)),
    ]


async def _group_families(groups: GroupService) -> list[Family]:
    counts: Counter[tuple[str, str]] = Counter()
    for context in groups.runtime.contexts():
        if context.is_active and isinstance(context.shard, GroupShard):
            counts.update((one.kind, one.state) for one in context.shard.list_groups())
            await asyncio.sleep(0)
    classic, consumer = (
        {state: number for (one, state), number in counts.items() if one == kind} for kind in ("classic", "consumer")
    )
    return [
        gauge(_DOMAIN, _GROUPS, "NumGroups", [(NO_LABELS, sum(classic.values()))]),
        *(
            gauge(_DOMAIN, _GROUPS, f"NumGroups{state}", [(NO_LABELS, classic.get(state, 0))])
            for state in _CLASSIC_STATES
        ),
        attribute(
            _OF_COORDINATORS,
            "group-count",
            [({"protocol": "classic"}, sum(classic.values())), ({"protocol": "consumer"}, sum(consumer.values()))],
        ),
        attribute(
            _OF_COORDINATORS,
            "consumer-group-count",
            [({"state": state}, consumer.get(state, 0)) for state in _CONSUMER_STATES],
        ),
    ]


async def _transaction_families(transactions: TransactionService) -> list[Family]:
    counts: Counter[str] = Counter()
    for context in transactions.runtime.contexts():
        if context.is_active and isinstance(context.shard, TransactionShard):
            counts.update(one.metadata.state.title for one in context.shard)
            await asyncio.sleep(0)
    return [
        own(
            "transactional_ids",
            "Transactional IDs coordinated by this broker, by the state of their last transaction",
            Kind.GAUGE,
            (({"state": state}, number) for state, number in sorted(counts.items())),
        )
    ]


async def last_rebalances(coordinators: BrokerCoordinators) -> list[dict[str, Any]]:
    """The cause, start and end of the last rebalances of each group."""
    groups, _ = coordinators.existing_services
    found: list[dict[str, Any]] = []
    for context in () if groups is None else groups.runtime.contexts():
        if not context.is_active or not isinstance(context.shard, GroupShard):
            continue
        for listed in context.shard.list_groups():
            group = context.shard.group(listed.group_id)
            if group is not None and group.rebalances:
                rebalances = [
                    {"cause": one.cause, "began_ms": one.began_ms, "ended_ms": one.ended_ms} for one in group.rebalances
                ]
                found.append({"group": group.group_id, "state": listed.state, "rebalances": rebalances})
        await asyncio.sleep(0)
    return found
