"""The simulated controller: one partition, its brokers, and the rules of KIP-966 in a hundred lines.

It is independent of the real controller, so that replicas are tested against the rules, not an implementation.
Every change is a new image. Brokers apply images in order, each with its own delay.
"""

from dataclasses import dataclass, replace

from odradek.base.errors import ErrorCode
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH, CommittedIsr, IsrProposal

NO_BROKER = -1


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    epoch: int
    life: int
    """The start of the process that has registered."""
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_BROKER


@dataclass(frozen=True, slots=True)
class Image:
    version: int
    brokers: dict[int, BrokerEntry]
    partition: PartitionEntry


class Controller:
    def __init__(self, replicas: tuple[int, ...], min_isr: int) -> None:
        self._min_isr = min_isr
        self.target: tuple[int, ...] | None = None
        """Target replicas of a reassignment, which completes once all of them are in the ISR."""
        self.images = [Image(0, {}, PartitionEntry(replicas, replicas, NO_BROKER, last_known_leader=replicas[0]))]

    @property
    def image(self) -> Image:
        return self.images[-1]

    def min_isr(self, image: Image) -> int:
        return min(self._min_isr, len(image.partition.replicas))

    def publish(self, brokers: dict[int, BrokerEntry], partition: PartitionEntry) -> None:
        self.images.append(Image(self.image.version + 1, brokers, partition))

    # Brokers

    def register(self, broker: int, life: int, *, is_clean: bool) -> int:
        """Returns the broker epoch, which is also the version of the first image that contains it."""
        known = self.image.brokers.get(broker)
        if known is not None and known.life == life:
            return known.epoch
        entry = BrokerEntry(self.image.version + 1, life)
        self._change({**self.image.brokers, broker: entry}, left=broker, unclean=not is_clean)
        return entry.epoch

    def unfence(self, broker: int) -> None:
        entry = self.image.brokers[broker]
        if entry.fenced:
            self._change({**self.image.brokers, broker: replace(entry, fenced=False)})

    def fence(self, broker: int) -> None:
        entry = self.image.brokers[broker]
        if not entry.fenced:
            self._change({**self.image.brokers, broker: replace(entry, fenced=True)}, left=broker)

    def begin_shutdown(self, broker: int) -> None:
        entry = self.image.brokers[broker]
        if not entry.in_controlled_shutdown:
            entry = replace(entry, in_controlled_shutdown=True)
            self._change({**self.image.brokers, broker: entry}, left=broker)

    def _change(self, brokers: dict[int, BrokerEntry], left: int = NO_BROKER, *, unclean: bool = False) -> None:
        partition = self.image.partition
        isr = tuple(one for one in partition.isr if one != left)
        self.publish(brokers, self.next_partition(brokers, isr, unclean=left if unclean else NO_BROKER))

    # The partition

    def next_partition(
        self,
        brokers: dict[int, BrokerEntry],
        isr: tuple[int, ...],
        *,
        unclean: int = NO_BROKER,
        replicas: tuple[int, ...] | None = None,
    ) -> PartitionEntry:
        before = self.image.partition
        replicas = before.replicas if replicas is None else replicas
        elr = self.eligible(isr, unclean)
        elr = tuple(one for one in elr if one in replicas)
        leader = self.elect(brokers, replicas, isr, elr)
        last_known_leader = before.last_known_leader
        if leader == NO_BROKER and before.leader != NO_BROKER:
            last_known_leader = before.leader
        elif leader != NO_BROKER:
            last_known_leader = NO_BROKER
            if leader not in isr:
                isr, elr = (leader,), tuple(one for one in elr if one != leader)
                if self.min_isr(self.image) == 1:
                    elr = ()
        after = PartitionEntry(
            replicas, isr, leader, before.leader_epoch, before.partition_epoch, elr, last_known_leader
        )
        if after == before:
            return before
        leader_epoch = before.leader_epoch + (leader != before.leader)
        return replace(after, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)

    def eligible(self, isr: tuple[int, ...], unclean: int) -> tuple[int, ...]:
        """A replica that leaves the ISR below min ISR has all committed records, unless it shut down uncleanly."""
        before = self.image.partition
        if len(isr) >= self.min_isr(self.image):
            return ()
        return tuple(sorted({*before.elr, *before.isr} - {*isr, unclean}))

    def elect(
        self, brokers: dict[int, BrokerEntry], replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]
    ) -> int:
        def can_lead(broker: int) -> bool:
            return broker in brokers and brokers[broker].is_active

        before = self.image.partition
        candidates = isr or elr or (before.last_known_leader,)
        return next((one for one in (before.leader, *replicas) if one in candidates and can_lead(one)), NO_BROKER)

    def alter_partition(self, broker: int, broker_epoch: int, proposal: IsrProposal) -> CommittedIsr | ErrorCode:
        image = self.image
        refusal = self._refusal(image, broker, broker_epoch, proposal)
        if refusal is not None:
            return refusal
        isr = tuple(member.broker_id for member in proposal.isr)
        replicas = image.partition.replicas
        if self.target is not None and set(self.target) <= set(isr):
            replicas, isr = self.target, tuple(one for one in isr if one in self.target)
            self.target = None
        partition = self.next_partition(image.brokers, isr, replicas=replicas)
        if partition != image.partition:
            self.publish(image.brokers, partition)
        if partition.leader != broker:
            return ErrorCode.new_leader_elected
        return CommittedIsr(partition.leader_epoch, partition.partition_epoch, partition.isr)

    def _refusal(self, image: Image, broker: int, broker_epoch: int, proposal: IsrProposal) -> ErrorCode | None:
        partition = image.partition
        ids = {member.broker_id for member in proposal.isr}
        if image.brokers[broker].epoch != broker_epoch:
            return ErrorCode.stale_broker_epoch
        if proposal.leader_epoch != partition.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if partition.leader != broker:
            return ErrorCode.invalid_request
        if proposal.partition_epoch != partition.partition_epoch:
            return ErrorCode.invalid_update_version
        if broker not in ids or not ids <= set(partition.replicas):
            return ErrorCode.invalid_request
        for member in proposal.isr:
            entry = image.brokers[member.broker_id]
            if not entry.is_active or member.broker_epoch not in (entry.epoch, UNKNOWN_BROKER_EPOCH):
                return ErrorCode.ineligible_replica
        return None

    def move_leader(self, broker: int) -> None:
        """Elects another ISR member although the current leader is healthy."""
        before = self.image.partition
        entry = self.image.brokers.get(broker)
        if broker in before.isr and broker != before.leader and entry is not None and entry.is_active:
            epochs = (before.leader_epoch + 1, before.partition_epoch + 1)
            self.publish(
                self.image.brokers,
                replace(before, leader=broker, leader_epoch=epochs[0], partition_epoch=epochs[1]),
            )

    def reassign(self, target: tuple[int, ...]) -> None:
        image = self.image
        self.target = target
        replicas = (*target, *(one for one in image.partition.replicas if one not in target))
        self.publish(image.brokers, self.next_partition(image.brokers, image.partition.isr, replicas=replicas))
