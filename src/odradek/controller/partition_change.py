"""One partition's next state: who leads, who is in sync, who else may lead without loss.

The rules of eligible leader replicas (KIP-966): while the in-sync set is below the minimum, whoever falls out of it
still has everything that was committed, and stays eligible. With nobody in sync and nobody eligible, the single last
known leader may come back, and only that one, unless the topic allows unclean elections.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from odradek.base.ids import NO_LEADER
from odradek.metadata.features import EPOCH_BUMP_ON_ISR_SHRINK_BEFORE, IV_3_7_DIRECTORIES
from odradek.metadata.image import RECOVERING, PartitionImage
from odradek.metadata.records import NO_LEADER_CHANGE, NO_RECOVERY_STATE_CHANGE, PartitionChangeRecord


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """What is wanted of one partition. `record` gives what has to be written for it, or None for no change."""

    topic_id: UUID
    partition_id: int
    before: PartitionImage
    can_lead: Callable[[int], bool]
    """Alive, not leaving, and with the replica's directory online."""
    metadata_version: int
    min_isr: int
    elr_enabled: bool
    isr: tuple[int, ...]
    unclean_allowed: bool = False
    unclean_shutdown: int | None = None
    """A broker that stopped uncleanly: it may have lost what it had not synced, so it is not eligible."""
    directories: Mapping[int, UUID | None] = field(default_factory=dict)
    """New directories, by broker."""

    def record(self) -> PartitionChangeRecord | None:
        before = self.before
        elr = self._eligible(before)
        isr = self.isr
        leader, is_unclean = self._elect(isr, elr)
        if leader != before.leader and leader in elr:
            isr = (leader,)
            elr = tuple(replica for replica in elr if replica != leader)
        if is_unclean and leader != before.leader:
            isr = (leader,)
            elr = ()
        if not isr and not self.elr_enabled:
            # Without eligible replicas the last in-sync set is all that tells who may lead again.
            isr = before.isr
        leader_change = NO_LEADER_CHANGE if leader == before.leader else leader
        shrinks = not set(before.isr) <= set(isr)
        if leader_change == NO_LEADER_CHANGE and shrinks and self.metadata_version < EPOCH_BUMP_ON_ISR_SHRINK_BEFORE:
            leader_change = before.leader
        recovers = is_unclean and leader != before.leader and before.leader_recovery_state != RECOVERING
        record = PartitionChangeRecord(
            partition_id=self.partition_id,
            topic_id=self.topic_id,
            isr=None if isr == before.isr else isr,
            leader=leader_change,
            leader_recovery_state=RECOVERING if recovers else NO_RECOVERY_STATE_CHANGE,
            eligible_leader_replicas=None if elr == before.elr else elr,
            last_known_elr=self._last_known_leader(leader_change),
            directories=self._changed_directories(),
        )
        unchanged = PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        return None if record == unchanged else record

    def _eligible(self, before: PartitionImage) -> tuple[int, ...]:
        if not self.elr_enabled or len(self.isr) >= self.min_isr:
            return ()
        candidates = dict.fromkeys((*before.elr, *before.isr))
        return tuple(sorted(one for one in candidates if one not in self.isr and one != self.unclean_shutdown))

    def _elect(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        """The leader, and whether records may have been lost with the election."""
        before = self.before

        def is_valid(replica: int) -> bool:
            return (replica in isr or (not isr and replica in elr)) and self.can_lead(replica)

        if is_valid(before.leader):
            return before.leader, False
        for replica in before.replicas:
            if is_valid(replica):
                return replica, False
        nobody_is_eligible = self.elr_enabled and not isr and not elr
        if nobody_is_eligible and len(before.last_known_elr) == 1 and self.can_lead(before.last_known_elr[0]):
            return before.last_known_elr[0], True
        if self.unclean_allowed:
            for replica in before.replicas:
                if self.can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _last_known_leader(self, leader_change: int) -> tuple[int, ...] | None:
        if not self.elr_enabled:
            return None
        if leader_change == NO_LEADER and not self.before.last_known_elr:
            return (self.before.leader,)
        if leader_change >= 0 and self.before.last_known_elr:
            return ()
        return None

    def _changed_directories(self) -> tuple[UUID | None, ...] | None:
        before = self.before
        if not self.directories or self.metadata_version < IV_3_7_DIRECTORIES:
            return None
        wanted = tuple(
            self.directories.get(replica, directory)
            for replica, directory in zip(before.replicas, before.directories, strict=True)
        )
        return None if wanted == before.directories else wanted
