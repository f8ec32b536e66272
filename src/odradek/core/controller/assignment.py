"""The replicas of a partition and its reassignment in progress, as values."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odradek.core.metadata.image import PartitionImage


@dataclass(frozen=True, slots=True)
class Assignment:
    replicas: tuple[int, ...]
    """The target replicas in order of preference, then those to be removed."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> "Assignment":
        return cls(partition.replicas, partition.adding, partition.removing)

    @property
    def is_changing(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def final_replicas(self) -> tuple[int, ...]:
        return _without(self.replicas, self.removing)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        return _without(self.replicas, self.adding)

    def towards(self, target: Sequence[int]) -> "Assignment":
        """A reassignment to these replicas, also from within another reassignment.

        Replicas that were being added, and belong to the new target, are still being added. Apache Kafka forgets that,
        and keeps removing replicas of the new target if the new reassignment removes none itself.
        """
        removing = tuple(sorted(set(self.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(self.original_replicas)))
        return Assignment((*target, *removing), adding, removing)

    def revert(self) -> "Assignment":
        return Assignment(self.original_replicas)

    def try_complete(self, isr: Collection[int], whole: Collection[int], min_isr: int) -> "Assignment | None":
        """The assignment after the reassignment. None: it cannot be completed yet.

        Added replicas must be in sync. If a replica with all committed records (one of `whole`) is removed, enough
        others must be in sync. Apache Kafka does not require this: it removes copies that `min.insync.replicas`
        guarantees, and then rejects writes.
        """
        if not self.is_changing:
            return None
        final = self.final_replicas
        # With fewer replicas than before, no added replica replaces a removed one: all others must be in sync.
        needed = final if len(self.adding) < len(self.removing) else self.adding
        staying = set(isr).intersection(final)
        if not staying.issuperset(needed):
            return None
        removes_no_copy = set(self.removing).isdisjoint(whole)
        return Assignment(final) if removes_no_copy or len(staying) >= min(min_isr, len(final)) else None


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)
