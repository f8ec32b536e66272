"""One partition's next state: who holds it, who leads, who is in sync, who else may lead without loss.

The rules of eligible leader replicas (KIP-966): while the in-sync set is below the minimum, whoever falls out of it
still has everything that was committed, and stays eligible. With nobody in sync and nobody eligible, the single last
known leader may come back, and only that one, unless the topic allows unclean elections.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from uuid import UUID

from odradek.base.ids import NO_LEADER
from odradek.metadata.features import EPOCH_BUMP_ON_ISR_SHRINK_BEFORE, IV_3_7_DIRECTORIES
from odradek.metadata.image import RECOVERING, PartitionImage
from odradek.metadata.records import NO_LEADER_CHANGE, NO_RECOVERY_STATE_CHANGE, PartitionChangeRecord

from .assignment import Assignment


class Election(Enum):
    ONLINE = auto()
    """Who leads goes on; or else the first replica that has everything."""
    PREFERRED = auto()
    """The first replica takes over from who leads, if it has everything."""
    UNCLEAN = auto()
    """As ONLINE, and with nobody left who has everything, the first replica that is alive."""


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """What is wanted of one partition. `record` gives what has to be written for it, or None for no change."""

    topic_id: UUID
    partition_id: int
    before: PartitionImage
    can_lead: Callable[[int], bool]
    """Holds a replica, alive, not leaving, and with the replica's directory online."""
    default_directory: Callable[[int], UUID | None]
    """Of a broker's new replicas."""
    metadata_version: int
    min_insync_replicas: int
    """As configured: no more than there are replicas can be asked for."""
    elr_enabled: bool
    isr: tuple[int, ...]
    assignment: Assignment
    """On its way: a reassignment whose time has come is completed with the change."""
    election: Election = Election.ONLINE
    leader_recovery_state: int | None = None
    """What the leader says of itself. None: it has said nothing."""
    unclean_shutdown: int | None = None
    """A broker that stopped uncleanly: it may have lost what it had not synced, so it is not eligible."""
    directories: Mapping[int, UUID | None] = field(default_factory=dict)
    """New directories, by broker."""

    def record(self) -> PartitionChangeRecord | None:
        before = self.before
        whole = self._whole()
        target = self.assignment.completed(self.isr, whole, self.min_insync_replicas) or self.assignment
        isr = self.isr if target is self.assignment else tuple(one for one in self.isr if one in target.replicas)
        elr = self._eligible(target, isr, whole)
        leader, is_unclean = self._elect(target, isr, elr)
        is_lossy = is_unclean and leader != before.leader
        if leader != before.leader and (leader in elr or is_lossy):
            isr = (leader,)
            elr = () if is_lossy else tuple(replica for replica in elr if replica != leader)
        if not isr and not self.elr_enabled:
            # Without eligible replicas the last in-sync set is all that tells who may lead again.
            isr = before.isr
        leader_change = leader
        if leader == before.leader and not self._begins_epoch(target, isr):
            leader_change = NO_LEADER_CHANGE
        record = PartitionChangeRecord(
            partition_id=self.partition_id,
            topic_id=self.topic_id,
            isr=None if isr == before.isr else isr,
            leader=leader_change,
            replicas=None if target.replicas == before.replicas else target.replicas,
            removing_replicas=None if target.removing == before.removing else target.removing,
            adding_replicas=None if target.adding == before.adding else target.adding,
            leader_recovery_state=self._changed_recovery_state(is_lossy),
            eligible_leader_replicas=None if elr == before.elr else elr,
            last_known_elr=self._last_known_leader(target, leader_change),
            directories=self._changed_directories(target),
        )
        unchanged = PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        return None if record == unchanged else record

    def _whole(self) -> set[int]:
        """Who has everything that was committed up to this change."""
        return {*self.before.elr, *self.before.isr} - {self.unclean_shutdown}

    def _eligible(self, target: Assignment, isr: tuple[int, ...], whole: set[int]) -> tuple[int, ...]:
        if not self.elr_enabled or len(isr) >= min(self.min_insync_replicas, len(target.replicas)):
            return ()
        return tuple(sorted(whole.intersection(target.replicas).difference(isr)))

    def _elect(self, target: Assignment, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        """The leader, and whether records may have been lost with the election."""
        before = self.before

        def is_valid(replica: int) -> bool:
            return (replica in isr or (not isr and replica in elr)) and self.can_lead(replica)

        for replica in self._in_order_of_choice(target):
            if is_valid(replica):
                return replica, False
        nobody_is_eligible = self.elr_enabled and not isr and not elr
        if nobody_is_eligible and len(before.last_known_elr) == 1 and self.can_lead(before.last_known_elr[0]):
            return before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in target.replicas:
                if self.can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _in_order_of_choice(self, target: Assignment) -> Iterator[int]:
        if self.election is Election.PREFERRED:
            yield target.replicas[0]
        yield self.before.leader
        yield from target.replicas

    def _begins_epoch(self, target: Assignment, isr: tuple[int, ...]) -> bool:
        """Whether the same leader goes on in a new epoch: one that lost a follower must not hear of it any more."""
        if not set(self.before.replicas) <= set(target.replicas):
            return True
        shrinks = not set(self.before.isr) <= set(isr)
        return shrinks and self.metadata_version < EPOCH_BUMP_ON_ISR_SHRINK_BEFORE

    def _changed_recovery_state(self, is_lossy: bool) -> int:
        before = self.before.leader_recovery_state
        said = before if self.leader_recovery_state is None else self.leader_recovery_state
        wanted = RECOVERING if is_lossy else said
        return NO_RECOVERY_STATE_CHANGE if wanted == before else wanted

    def _last_known_leader(self, target: Assignment, leader_change: int) -> tuple[int, ...] | None:
        before = self.before
        if not self.elr_enabled:
            return None
        if leader_change == NO_LEADER and not before.last_known_elr and before.leader in target.replicas:
            return (before.leader,)
        if leader_change >= 0 and before.last_known_elr:
            return ()
        return None

    def _changed_directories(self, target: Assignment) -> tuple[UUID | None, ...] | None:
        before = self.before
        if self.metadata_version < IV_3_7_DIRECTORIES:
            return None
        if not self.directories and target.replicas == before.replicas:
            return None
        known = {**dict(zip(before.replicas, before.directories, strict=True)), **self.directories}
        wanted = tuple(
            known[replica] if replica in known else self.default_directory(replica) for replica in target.replicas
        )
        return None if wanted == before.directories else wanted
