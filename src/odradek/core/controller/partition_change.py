"""The next state of one partition: replicas, leader, ISR and ELR.

The rules of eligible leader replicas (KIP-966): while the ISR is below the minimum, a replica that leaves it still has
all committed records and stays eligible. If ISR and ELR are empty, only the last known leader may become leader again,
unless the topic allows unclean elections.
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
    """Keeps the leader, or elects the first replica in the ISR or ELR."""
    PREFERRED = auto()
    """Elects the first replica if it is in the ISR or ELR."""
    UNCLEAN = auto()
    """Like ONLINE; if no replica has all committed records, elects the first live one."""


class Rules(NamedTuple):
    """The settings for all partitions of a topic."""

    metadata_version: int
    is_elr_enabled: bool
    min_insync_replicas: int
    """As configured; the number of replicas is the upper limit."""
    unclean_allowed: bool


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """A change of one partition. `record` returns the record to write, or None for no change.

    When a broker dies there is one for each of its partitions, so unchanged parts are skipped.
    """

    topic_id: UUID
    partition_id: int
    before: PartitionImage
    rules: Rules
    can_lead: Callable[[int], bool]
    """Whether a broker has a replica, is active, and the replica's directory is online."""
    default_directory: Callable[[int], UUID | None]
    """The directory of a broker's new replicas."""
    isr: tuple[int, ...]
    election: Election
    assignment: Assignment | None = None
    """A new assignment, or None. Any change also completes a reassignment that can be completed."""
    leader_recovery_state: int | None = None
    """As the leader reports it. None: no report."""
    unclean_shutdown: int | None = None
    """A broker that stopped uncleanly or lost its disk: it may lack committed records, so it is not eligible."""
    directories: Mapping[int, UUID | None] = field(default_factory=dict)
    """New directories by broker ID."""

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
            # By the current minimum: if the new leader alone satisfies it, there is no ELR.
            elr = () if is_lossy else self._eligible(replicas, isr)
        if not isr and not self.rules.is_elr_enabled:
            # Without ELR, only the last ISR shows which replicas may lead again.
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
        """None: the assignment does not change."""
        before = self.before
        if self.assignment is None and not before.adding and not before.removing:
            return None
        now = Assignment.of(before)
        wanted = self.assignment or now
        target = wanted.try_complete(self.isr, self._whole(), self.rules.min_insync_replicas) or wanted
        return None if target == now else target

    def _whole(self) -> set[int]:
        """The replicas with all records that were committed before this change."""
        return {*self.before.elr, *self.before.isr} - {self.unclean_shutdown}

    def _eligible(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> tuple[int, ...]:
        rules = self.rules
        if not rules.is_elr_enabled or len(isr) >= min(rules.min_insync_replicas, len(replicas)):
            return ()
        return tuple(sorted(self._whole().intersection(replicas).difference(isr)))

    def _elect(self, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        """The leader, and whether the election may have lost records."""
        can_lead = self.can_lead
        valid = isr or elr
        for replica in self._in_order_of_choice(replicas):
            if replica in valid and can_lead(replica):
                return replica, False
        last_known = self.before.last_known_elr
        if self.rules.is_elr_enabled and not valid and len(last_known) == 1 and can_lead(last_known[0]):
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
        """Whether the leader stays but starts a new epoch, which fences a removed follower."""
        before = self.before
        if replicas is not before.replicas and not set(before.replicas).issubset(replicas):
            return True
        bumps_on_shrink = self.rules.metadata_version < EPOCH_BUMP_ON_ISR_SHRINK_BEFORE
        return bumps_on_shrink and not set(before.isr).issubset(isr)

    def _changed_recovery_state(self, is_lossy: bool) -> int:
        before = self.before.leader_recovery_state
        reported = before if self.leader_recovery_state is None else self.leader_recovery_state
        wanted = RECOVERING if is_lossy else reported
        return NO_RECOVERY_STATE_CHANGE if wanted == before else wanted

    def _last_known_leader(self, replicas: tuple[int, ...], leader_change: int) -> tuple[int, ...] | None:
        before = self.before
        if not self.rules.is_elr_enabled:
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
