"""Which node coordinated a group at which time, according to the metadata log."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.base.java_hash import partition_of
from odradek.sim.checkers.partition_model import ClusterModel
from odradek.sim.quorum_history import CommittedBatch
from odradek.sim.replica_history import CommittedRecord

CONSUMER_OFFSETS: Final = "__consumer_offsets"


class Coordinators:
    """Nodes by name. Without a recorded metadata log, no coordinator counts as replaced."""

    def __init__(
        self,
        metadata: Iterable[CommittedRecord],
        committed: Sequence[CommittedBatch],
        node_ids: Mapping[str, int],
    ) -> None:
        names = {node_id: name for name, node_id in node_ids.items()}
        first_offsets = [one.batch.base_offset for one in committed]
        self._changes: Final[dict[int, list[tuple[float, str]]]] = defaultdict(list)
        """Partition of the topic -> its leaders with the times when they became leader; an empty name: no leader."""
        model = ClusterModel()
        for one in metadata:
            key = model.take(one)
            if key is None or model.name(key).topic != CONSUMER_OFFSETS:
                continue
            leader = names.get(model.partitions[key].leader, "")
            changes = self._changes[key[1]]
            if not changes or changes[-1][1] != leader:
                place = bisect_right(first_offsets, one.offset) - 1
                changes.append((committed[place].appended_seconds if place >= 0 else 0.0, leader))

    def is_replaced(self, coordinator: str, group: str, seconds: float) -> bool:
        """Whether another node was the group's coordinator by then; the old one may not have been notified yet."""
        if not self._changes:
            return False
        changes = self._changes[partition_of(group, len(self._changes))]
        place = bisect_right(changes, seconds, key=lambda change: change[0]) - 1
        return place >= 0 and changes[place][1] != coordinator
