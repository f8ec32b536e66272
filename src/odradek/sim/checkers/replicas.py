"""Replicas: invariants 16 to 18, checked on the metadata log and on the contents of disks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple, Self
from uuid import UUID

from odradek.base.ids import NO_LEADER, TopicPartition
from odradek.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from odradek.sim.checkers.partition_model import ClusterModel, PartitionModel
from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Deletion, History, IsrView, Outcome, Read, Send
from odradek.sim.replica_history import CommittedRecord, Copies, IsrChange, MetadataEnd, ReplicaHistory, UncleanEnd
from odradek.sim.stored_log import StoredBatch

STAYS_DELETED: Final = "1 deleted records stay deleted"
HAS_EVERYTHING: Final = "16 replicas that may lead have all acknowledged records"
ALL_SYNCED: Final = "1 acknowledged records are synced by every ISR member"
LOGS_AGREE: Final = "16 logs agree below the lowest high watermark"
ISR_AND_ELR: Final = "17 ISR and ELR follow KIP-966"
MIN_ISR: Final = "17 below min.insync.replicas the high watermark does not advance"
MOVED: Final = "16 a reassignment completes after the added replicas joined the ISR"
STALE_BROKER_EPOCH: Final = "18 ISR changes with a stale broker epoch are rejected"
ELIGIBLE_LEADER: Final = "18 only replicas in the ISR or ELR are elected"
UNCLEAN_IS_OUT: Final = "18 a broker leaves the ISR after an unclean shutdown"
_ANY_EPOCH: Final = -1
_LATEST_SENDS: Final = 20
_Key = tuple[UUID, int]
_Epoch = tuple[TopicPartition, int]


def check_replicas(history: ReplicaHistory, seen: History) -> Iterator[Violation]:
    """`seen`: the requests and responses of clients."""
    yield from check_same_prefix(history.copies, seen)
    seconds = history.copies[-1].seconds if history.copies else 0.0
    states = _States(history.metadata)
    yield from check_metadata_log(history.metadata, history.unclean_ends, seconds)
    yield from check_broker_epochs(history.metadata, history.isr_changes, seconds)
    yield from check_copies(history, states, seen)
    yield from check_min_isr(history.metadata, history.isr_changes, seen)
    yield from check_deleted(seen.deletions, seen.reads, history.unclean_ends, Leaderships.of(history.metadata))


# ---- the metadata log


def check_broker_epochs(
    records: Sequence[CommittedRecord], changes: Sequence[IsrChange], seconds: float
) -> Iterator[Violation]:
    """The controller adds a broker to the ISR only with the broker epoch of its current incarnation."""
    model = ClusterModel()
    agreed = {(one.topic_id, one.partition, one.partition_epoch): one for one in changes}
    for one in records:
        changed = model.take(one)
        change = agreed.get((*changed, model.partitions[changed].partition_epoch)) if changed else None
        for broker_id, broker_epoch in change.broker_epochs if change else ():
            if broker_epoch not in (_ANY_EPOCH, model.broker_epochs.get(broker_id)):
                what = f"record {one.offset}: broker {broker_id} joins the ISR with its former epoch {broker_epoch}"
                yield Violation(STALE_BROKER_EPOCH, what, seconds)
                return


def check_metadata_log(
    records: Sequence[CommittedRecord], unclean_ends: Sequence[UncleanEnd], seconds: float
) -> Iterator[Violation]:
    model = ClusterModel()
    returns = _returns(records, unclean_ends)
    for place, one in enumerate(records):
        record = one.record
        former = dict(model.partitions)
        changed = model.take(one)
        for what in _wrong_states(model, changed):
            yield Violation(ISR_AND_ELR, f"record {one.offset}: {what}", seconds)
        if changed is not None and changed in former:
            before, after, name = former[changed], model.partitions[changed], model.name(changed)
            newcomers = {*after.replicas}.difference(before.original_replicas, after.adding, after.removing)
            if newcomers.difference(after.isr):
                what = f"record {one.offset}: {name} changes from {before} to {after}"
                yield Violation(MOVED, what, seconds)
            wrong = _wrong_election(before, after, _find_returning_broker(records[place:]))
            if wrong is not None:
                yield Violation(ELIGIBLE_LEADER, f"record {one.offset}: {name} {wrong}", seconds)
        if isinstance(record, RegisterBrokerRecord) and one.offset in returns:
            for key, state in model.partitions.items():
                if record.broker_id in (*state.isr, *state.elr):
                    what = f"record {one.offset}: broker {record.broker_id} is back, {model.name(key)} has {state}"
                    yield Violation(UNCLEAN_IS_OUT, what, seconds)


def _wrong_states(model: ClusterModel, changed: _Key | None) -> Iterator[str]:
    keys = model.partitions if changed is None else (changed,)
    for key in keys:
        state = model.partitions[key]
        min_isr = model.min_isr(key)
        if set(state.isr) & set(state.elr):
            yield f"{model.name(key)} has a broker in both ISR and ELR: {state}"
        if min_isr is not None and len(state.isr) >= min_isr and state.elr:
            yield f"{model.name(key)} has enough in sync, and eligible ones: {state}"
        if any(model.fenced.get(broker_id, True) for broker_id in state.isr):
            yield f"{model.name(key)} has a fenced broker in sync: {state}"
        if state.leader != NO_LEADER and state.leader not in state.isr:
            yield f"{model.name(key)} has a leader that is not in sync: {state}"


def _find_returning_broker(records: Sequence[CommittedRecord]) -> int | None:
    """The broker that registers after these partition changes; it may have lost records."""
    for one in records:
        if isinstance(one.record, RegisterBrokerRecord):
            return one.record.broker_id
        if not isinstance(one.record, PartitionChangeRecord):
            return None
    return None


def _wrong_election(before: PartitionModel, after: PartitionModel, returning: int | None) -> str | None:
    leader = after.leader
    if leader in (NO_LEADER, before.leader) or leader in before.isr or leader in before.elr:
        return None
    if not {*before.isr, *before.elr} - {returning} and before.last_known_leader == (leader,):
        return None
    if before.leader in before.removing and before.leader not in after.replicas:
        # The former leader's last proposal put another replica into the ISR, which completed the reassignment.
        return None
    return f"elects {leader}, with {before}"


def _returns(records: Sequence[CommittedRecord], unclean_ends: Sequence[UncleanEnd]) -> set[int]:
    """The offsets of the first registration after each unclean shutdown and before the next one.

    A broker may die while it registers; the registration is then for a process that no longer exists.
    """
    registrations: dict[int, list[CommittedRecord]] = defaultdict(list)
    for one in records:
        if isinstance(one.record, RegisterBrokerRecord):
            registrations[one.record.broker_id].append(one)
    ends: dict[int, list[MetadataEnd]] = defaultdict(list)
    for unclean in unclean_ends:
        ends[unclean.broker_id].append(unclean.metadata)
    found: set[int] = set()
    for broker_id, of_broker in ends.items():
        for end, following in zip_longest(of_broker, of_broker[1:]):
            between = [
                one.offset
                for one in registrations[broker_id]
                if one.is_since(end) and (following is None or not one.is_since(following))
            ]
            found.update(between[:1])
    return found


class _States:
    """The partitions as they were at any offset of the metadata log."""

    def __init__(self, records: Sequence[CommittedRecord]) -> None:
        self._records: Final = records
        self._model: Final = ClusterModel()
        self._taken = 0

    def at(self, end_offset: int) -> ClusterModel:
        """Call it with increasing offsets."""
        while self._taken < len(self._records) and self._records[self._taken].offset < end_offset:
            self._model.take(self._records[self._taken])
            self._taken += 1
        return self._model


# ---- too few in sync


def check_min_isr(
    records: Sequence[CommittedRecord], changes: Sequence[IsrChange], seen: History
) -> Iterator[Violation]:
    """While a leader reports fewer ISR members than min.insync.replicas, its high watermark does not advance. Clients
    see the ISR of the metadata log: the leader may have received the controller's response earlier.
    """
    agreed = {(one.topic_id, one.partition, one.partition_epoch): one.seconds for one in changes}
    views_of: dict[_Epoch, list[IsrView]] = defaultdict(list)
    for view in seen.isr_views:
        views_of[view.partition, view.leader_epoch].append(view)
    for epoch, shortage in _shortages(records).items():
        views = [view for view in views_of[epoch] if frozenset(view.isr) in shortage.sets]
        if not views:
            continue
        began = min(view.ended for view in views)
        ended = inf
        if shortage.ended_with is not None:
            ended = min(max(view.began for view in views), agreed.get(shortage.ended_with, inf))
        marks = {
            read.high_watermark
            for read in seen.reads
            if (read.partition, read.leader_epoch) == epoch and read.began > began and read.ended < ended
        }
        marks |= {
            end.offset
            for end in seen.end_offsets
            if (end.partition, end.leader_epoch) == epoch and end.began > began and end.ended < ended
        }
        if len(marks) > 1:
            what = f"{epoch[0]}: too few in sync from {began:.6f} to {ended:.6f} in epoch {epoch[1]}"
            yield Violation(MIN_ISR, f"{what}, and the high watermark goes through {sorted(marks)}", began)


class _Shortage(NamedTuple):
    sets: frozenset[frozenset[int]]
    """The ISRs that are smaller than min.insync.replicas."""
    ended_with: tuple[UUID, int, int] | None
    """The partition and its epoch when there were enough again; None: not while the same leader led."""


def _shortages(records: Sequence[CommittedRecord]) -> dict[_Epoch, _Shortage]:
    """The shortages of the leader epochs that had exactly one."""
    model = ClusterModel()
    sizes: dict[_Epoch, list[tuple[frozenset[int], bool, int]]] = defaultdict(list)
    keys: dict[_Epoch, _Key] = {}
    for one in records:
        changed = model.take(one)
        min_isr = None if changed is None else model.min_isr(changed)
        if changed is not None and min_isr is not None:
            state = model.partitions[changed]
            is_short = len(state.isr) < min_isr
            epoch = model.name(changed), state.leader_epoch
            keys[epoch] = changed
            sizes[epoch].append((frozenset(state.isr), is_short, state.partition_epoch))
    found = {}
    for epoch, sets in sizes.items():
        runs = [(is_short, list(run)) for is_short, run in groupby(sets, key=lambda one: one[1])]
        short = [run for is_short, run in runs if is_short]
        if len(short) == 1:
            # With a lower replication factor the same ISR may have been large enough.
            enough = {one for one, is_short, _ in sets if not is_short}
            is_short, last = runs[-1]
            ended_with = None if is_short else (*keys[epoch], last[0][2])
            found[epoch] = _Shortage(frozenset(one for one, *_ in short[0]) - enough, ended_with)
    return found


# ---- deletions


class Leaderships(NamedTuple):
    """Leader epochs whose leader may not know of earlier deletions, or may lose them."""

    of_eligible: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({})
    """Epochs of leaders that were not in the ISR when they were elected."""
    alone: Mapping[_Epoch, int] = MappingProxyType({})
    """Epochs in which the leader was the only ISR member for a time -> that leader."""

    @classmethod
    def of(cls, records: Sequence[CommittedRecord]) -> Self:
        model = ClusterModel()
        of_eligible: dict[TopicPartition, list[int]] = defaultdict(list)
        alone: dict[_Epoch, int] = {}
        for one in records:
            former = dict(model.partitions)
            changed = model.take(one)
            if changed is None or changed not in model.partitions:
                continue
            before, after = former.get(changed), model.partitions[changed]
            if before is not None and after.leader_epoch != before.leader_epoch and after.leader in before.elr:
                of_eligible[model.name(changed)].append(after.leader_epoch)
            if len(after.isr) == 1:
                alone[model.name(changed), after.leader_epoch] = after.isr[0]
        return cls(of_eligible, alone)

    def lone_leaders(self, partition: TopicPartition, since_epoch: int) -> set[int]:
        return {who for (one, epoch), who in self.alone.items() if one == partition and epoch >= since_epoch}


def check_deleted(
    deletions: Sequence[Deletion],
    reads: Sequence[Read],
    unclean_ends: Sequence[UncleanEnd],
    leaderships: Leaderships,
) -> Iterator[Violation]:
    """Deleted records stay deleted, except that an earlier leader may not know of the deletion. The log start offset is
    only checkpointed periodically: brokers that crash one after the other may lose it, and so may a lone ISR member.
    Replicas that are down are not waited for, as in Kafka: one that is elected from the ELR has the deleted records.
    """
    for one in deletions:
        if one.ended is None:
            continue
        died = [end for end in unclean_ends if end.seconds >= one.ended]
        lone = leaderships.lone_leaders(one.partition, one.leader_epoch)
        knew_count = 1 if (one.partition, one.leader_epoch) in leaderships.alone else 2
        forgetting = [*died[knew_count - 1 :], *(end for end in died if end.broker_id in lone)]
        forgotten_at = min((end.seconds for end in forgetting), default=inf)
        forgotten_in = min(
            (epoch for epoch in leaderships.of_eligible.get(one.partition, ()) if epoch > one.leader_epoch), default=inf
        )
        for read in reads:
            is_later = one.ended < read.began < forgotten_at and one.leader_epoch <= read.leader_epoch < forgotten_in
            if read.partition == one.partition and is_later and read.records and read.fetch_offset < one.offset:
                what = f"{one.partition} {read.fetch_offset}: {read.reader} reads records deleted below {one.offset}"
                yield Violation(STAYS_DELETED, what, read.ended)
                return


# ---- disks


class _Acknowledged(NamedTuple):
    seconds: float
    offset: int
    checksum: int
    send: Send


def check_copies(history: ReplicaHistory, states: _States, seen: History) -> Iterator[Violation]:
    """Replicas need not have deleted records, and files may contain other records in their place: a follower does not
    compare its log with the leader's below the leader's log start offset."""
    acknowledged: dict[TopicPartition, list[_Acknowledged]] = defaultdict(list)
    for send in seen.sends:
        if send.outcome is Outcome.DONE and send.ended is not None:
            acknowledged[send.partition].append(_Acknowledged(send.ended, send.offset, send.checksum, send))
    for of_partition in acknowledged.values():
        of_partition.sort(key=lambda one: one.seconds)
    epochs = {batch.last_offset + 1: batch.epoch for batch in history.metadata_batches}
    for copies in history.copies:
        if epochs.get(copies.metadata.end_offset) != copies.metadata.epoch:
            # These metadata records were never committed.
            continue
        model = states.at(copies.metadata.end_offset)
        state = model.partition(copies.partition)
        if state is None:
            continue
        start_offset = seen.may_be_deleted(copies.partition, copies.seconds)
        due = [
            one
            for one in acknowledged[copies.partition]
            if one.seconds <= copies.seconds and one.offset >= start_offset
        ]
        if not copies.is_thorough:
            due = due[-_LATEST_SENDS:]
        doubtful = {
            end.broker_id for end in history.unclean_ends if end.seconds <= copies.seconds and not model.is_back(end)
        }
        if copies.unsynced is not None:
            send, brokers = copies.unsynced
            # The records may have been deleted before the client received the acknowledgement.
            is_due = send.offset >= start_offset
            if is_due and (lacking := sorted(brokers & set(state.isr) - doubtful)):
                what = f"{send} was acknowledged at {send.offset}, and brokers {lacking} may lose it: {state}"
                yield Violation(ALL_SYNCED, f"{copies.partition}: {what}", copies.seconds)
                return
        for broker_id in sorted({*state.isr, *state.elr} - doubtful):
            missing = _find_missing(copies.logs.get(broker_id, ()), due)
            if missing is not None:
                what = f"broker {broker_id} lacks {missing.send} at {missing.offset}: {state}"
                yield Violation(HAS_EVERYTHING, f"{copies.partition}: {what}", copies.seconds)
                return


def _find_missing(log: Sequence[StoredBatch], due: Sequence[_Acknowledged]) -> _Acknowledged | None:
    held = {(batch.base_offset, batch.checksum) for batch in log}
    start_offset = log[0].base_offset if log else 0
    return next((one for one in due if one.offset >= start_offset and (one.offset, one.checksum) not in held), None)


def check_same_prefix(history: Sequence[Copies], clients: History) -> Iterator[Violation]:
    for copies in history:
        if not copies.is_thorough:
            continue
        start_offset = clients.may_be_deleted(copies.partition, copies.seconds)
        seen: dict[int, tuple[StoredBatch, int]] = {}
        lowest = min(copies.high_watermarks.values(), default=0)
        for broker_id, log in copies.logs.items():
            for batch in log:
                if batch.last_offset >= lowest:
                    break
                if batch.last_offset < start_offset:
                    continue
                other, holder = seen.setdefault(batch.base_offset, (batch, broker_id))
                if other != batch:
                    what = f"{batch} at broker {broker_id} and {other} at {holder}, below {lowest}"
                    yield Violation(LOGS_AGREE, f"{copies.partition}: {what}", copies.seconds)
                    return
