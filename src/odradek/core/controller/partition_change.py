"""One partition's next state: who holds it, who leads, who is in sync, who else may lead without loss.

The rules of eligible leader replicas (KIP-966): while the in-sync set is below the minimum, whoever falls out of it
still has everything that was committed, and stays eligible. With nobody in sync and nobody eligible, the single last
known leader may come back, and only that one, unless the topic allows unclean elections.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import NO_LEADER
from odradek.core.controller.assignment import Assignment
from odradek.core.metadata.features import EPOCH_BUMP_ON_ISR_SHRINK_BEFORE, IV_3_7_DIRECTORIES
from odradek.core.metadata.image import RECOVERING, PartitionImage
from odradek.core.metadata.records import NO_LEADER_CHANGE, NO_RECOVERY_STATE_CHANGE, PartitionChangeRecord


class Election(Enum):
    ONLINE = auto()
    """Who leads goes on; or else the first replica that has everything."""
    PREFERRED = auto()
    """The first replica takes over from who leads, if it has everything."""
    UNCLEAN = auto()
    """As ONLINE, and with nobody left who has everything, the first replica that is alive."""


class Rules(NamedTuple):
    """What holds for all partitions of a topic."""

    metadata_version: int
    elr_enabled: bool
    min_insync_replicas: int
    """As configured: no more than there are replicas can be asked for."""
    unclean_allowed: bool


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """What is wanted of one partition. `record` gives what has to be written for it, or None for no change.

    When a broker dies, there is one for each of its partitions: what does not change is not looked at.
    """

    topic_id: UUID
    partition_id: int
    before: PartitionImage
    rules: Rules
    can_lead: Callable[[int], bool]
    """Holds a replica, alive, not leaving, and with the replica's directory online."""
    default_directory: Callable[[int], UUID | None]
    """Of a broker's new replicas."""
    isr: tuple[int, ...]
    election: Election
    assignment: Assignment | None = None
    """Another one than before. In any case, a reassignment whose time has come is completed with the change."""
    leader_recovery_state: int | None = None
    """What the leader says of itself. None: it has said nothing."""
    unclean_shutdown: int | None = None
    """A broker that stopped uncleanly, or lost its disk: it may not have everything, so it is not eligible."""
    directories: Mapping[int, UUID | None] = field(default_factory=dict)
    """New directories, by broker."""

    def record(self) -> PartitionChangeRecord | None:
        before = self.before
        target = self._target()
        replicas = before.replicas if target is None else target.replicas
        isr = self.isr if target is None else tuple(one for one in self.isr if one in replicas)
        elr = self._eligible(replicas, isr)
        leader, is_unclean = self._elect(replicas, isr, elr)
        is_lossy = is_unclean and leader != before.leader
        if leader != before.leader and (leader in elr or is_lossy):
            isr = (leader,)
            # By the minimum of now: it may be one that a single member satisfies, and then the leader goes on alone.
            elr = () if is_lossy else self._eligible(replicas, isr)
        if not isr and not self.rules.elr_enabled:
            # Without eligible replicas the last in-sync set is all that tells who may lead again.
            isr = before.isr
        assert leader == NO_LEADER or leader in isr, f"leader {leader} is not in the ISR {isr}"
        if elr or target is not None:
            self._check_sets(replicas, isr, elr)
        leader_change = leader
        if leader == before.leader and not self._starts_new_epoch(replicas, isr):
            leader_change = NO_LEADER_CHANGE
        recovery_change = self._changed_recovery_state(is_lossy)
        last_known_leader = self._last_known_leader(replicas, leader_change)
        directories = self._changed_directories(replicas)
        if (
            target is None
            and isr == before.isr
            and elr == before.elr
            and leader_change == NO_LEADER_CHANGE
            and recovery_change == NO_RECOVERY_STATE_CHANGE
            and last_known_leader is None
            and directories is None
        ):
            return None
        return PartitionChangeRecord(
            partition_id=self.partition_id,
            topic_id=self.topic_id,
            isr=None if isr == before.isr else isr,
            leader=leader_change,
            replicas=None if replicas == before.replicas else replicas,
            removing_replicas=None if target is None or target.removing == before.removing else target.removing,
            adding_replicas=None if target is None or target.adding == before.adding else target.adding,
            leader_recovery_state=recovery_change,
            eligible_leader_replicas=None if elr == before.elr else elr,
            last_known_elr=last_known_leader,
            directories=directories,
        )

    def _check_sets(self, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
        """The ISR and the ELR are disjoint parts of the replicas, and a large enough ISR leaves no ELR."""
        assert set(isr).issubset(replicas), f"ISR {isr} is not within the replicas {replicas}"
        assert set(elr).issubset(replicas), f"ELR {elr} is not within the replicas {replicas}"
        assert not set(elr).intersection(isr), f"ELR {elr} and ISR {isr} overlap"
        minimum = min(self.rules.min_insync_replicas, len(replicas))
        assert not elr or len(isr) < minimum, f"ELR {elr} is not empty while ISR {isr} has the minimum of {minimum}"

    def _target(self) -> Assignment | None:
        """None: the assignment stays as it is."""
        before = self.before
        if self.assignment is None and not before.adding and not before.removing:
            return None
        now = Assignment.of(before)
        wanted = self.assignment or now
        target = wanted.completed(self.isr, self._whole(), self.rules.min_insync_replicas) or wanted
        return None if target == now else target

    def _whole(self) -> set[int]:
        """Who has everything that was committed up to this change."""
        return {*self.before.elr, *self.before.isr} - {self.unclean_shutdown}

    def _eligible(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> tuple[int, ...]:
        rules = self.rules
        if not rules.elr_enabled or len(isr) >= min(rules.min_insync_replicas, len(replicas)):
            return ()
        return tuple(sorted(self._whole().intersection(replicas).difference(isr)))

    def _elect(self, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        """The leader, and whether records may have been lost with the election."""
        can_lead = self.can_lead
        valid = isr or elr
        for replica in self._in_order_of_choice(replicas):
            if replica in valid and can_lead(replica):
                return replica, False
        last_known = self.before.last_known_elr
        if self.rules.elr_enabled and not valid and len(last_known) == 1 and can_lead(last_known[0]):
            return last_known[0], True
        if self.election is Election.UNCLEAN:
            for replica in replicas:
                if can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _in_order_of_choice(self, replicas: tuple[int, ...]) -> Iterator[int]:
        if self.election is Election.PREFERRED:
            yield replicas[0]
        yield self.before.leader
        yield from replicas

    def _starts_new_epoch(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        """Whether the same leader goes on in a new epoch: one that lost a follower must not hear of it any more."""
        before = self.before
        if replicas is not before.replicas and not set(before.replicas).issubset(replicas):
            return True
        shrinks_loudly = self.rules.metadata_version < EPOCH_BUMP_ON_ISR_SHRINK_BEFORE
        return shrinks_loudly and not set(before.isr).issubset(isr)

    def _changed_recovery_state(self, is_lossy: bool) -> int:
        before = self.before.leader_recovery_state
        said = before if self.leader_recovery_state is None else self.leader_recovery_state
        wanted = RECOVERING if is_lossy else said
        return NO_RECOVERY_STATE_CHANGE if wanted == before else wanted

    def _last_known_leader(self, replicas: tuple[int, ...], leader_change: int) -> tuple[int, ...] | None:
        before = self.before
        if not self.rules.elr_enabled:
            return None
        if leader_change == NO_LEADER and not before.last_known_elr and before.leader in replicas:
            return (before.leader,)
        if leader_change >= 0 and before.last_known_elr:
            return ()
        return None

    def _changed_directories(self, replicas: tuple[int, ...]) -> tuple[UUID | None, ...] | None:
        before = self.before
        if not self.directories and replicas is before.replicas:
            return None
        if self.rules.metadata_version < IV_3_7_DIRECTORIES:
            return None
        known = {**dict(zip(before.replicas, before.directories, strict=True)), **self.directories}
        wanted = tuple(known[replica] if replica in known else self.default_directory(replica) for replica in replicas)
        return None if wanted == before.directories else wanted
