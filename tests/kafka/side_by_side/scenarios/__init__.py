"""What is asked, one file per family of APIs."""

from tests.kafka.side_by_side.scenarios import (
    configs,
    disks_and_features,
    fetch,
    metadata,
    offsets,
    placement,
    produce,
    producers,
    quorum,
    topics,
    versions,
)

__all__ = [
    "configs",
    "disks_and_features",
    "fetch",
    "metadata",
    "offsets",
    "placement",
    "produce",
    "producers",
    "quorum",
    "topics",
    "versions",
]
