"""The requests, one file per family of APIs."""

from tests.kafka.side_by_side.scenarios import (
    client_quotas,
    configs,
    consumer_groups,
    disks_and_features,
    fetch,
    group_offsets,
    groups,
    metadata,
    offsets,
    placement,
    produce,
    producers,
    quorum,
    topics,
    transactions,
    versions,
)

__all__ = [
    "client_quotas",
    "configs",
    "consumer_groups",
    "disks_and_features",
    "fetch",
    "group_offsets",
    "groups",
    "metadata",
    "offsets",
    "placement",
    "produce",
    "producers",
    "quorum",
    "topics",
    "transactions",
    "versions",
]
