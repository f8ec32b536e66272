"""Which brokers hold a partition's replicas, and on what way they are to others. Values only, without the partition."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odradek.core.metadata.image import PartitionImage


@dataclass(frozen=True, slots=True)
class Assignment:
    replicas: tuple[int, ...]
    """Those that stay and those that come, in order of preference; then those that go."""
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
        """The way to these replicas from wherever this one is.

        Whoever was still to come, and is wanted still, goes on coming. Apache Kafka forgets that of a reassignment
        that replaces another, and keeps removing brokers that the new one wants, when it removes none itself.
        """
        removing = tuple(sorted(set(self.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(self.original_replicas)))
        return Assignment((*target, *removing), adding, removing)

    def reverted(self) -> "Assignment":
        return Assignment(self.original_replicas)

    def completed(self, isr: Collection[int], whole: Collection[int], min_isr: int) -> "Assignment | None":
        """Where the way ends, once it may. None: not yet.

        Those who come have to be in sync. If somebody goes who is among the `whole`, which have everything that was
        committed, enough others must be in sync. Apache Kafka does not ask for that: it lets go with them the copies
        that `min.insync.replicas` promises, and refuses writes that were accepted before.
        """
        if not self.is_changing:
            return None
        final = self.final_replicas
        # Fewer replicas than before: no newcomer stands for those who go, so all of the rest has to be in sync.
        needed = final if len(self.adding) < len(self.removing) else self.adding
        staying = set(isr).intersection(final)
        if not staying.issuperset(needed):
            return None
        loses_nobody = set(self.removing).isdisjoint(whole)
        return Assignment(final) if loses_nobody or len(staying) >= min(min_isr, len(final)) else None


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)
