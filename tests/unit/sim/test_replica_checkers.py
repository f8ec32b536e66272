"""Checkers of replicas, fed with small histories: what is right passes, what is wrong is named."""

from dataclasses import replace
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from odradek.sim.checkers.partition_model import ClusterModel
from odradek.sim.checkers.records import check_ends_of_epochs, check_read_stays
from odradek.sim.checkers.replicas import (
    ALL_SYNCED,
    ELIGIBLE_LEADER,
    HAS_EVERYTHING,
    ISR_AND_ELR,
    LOGS_AGREE,
    MIN_ISR,
    STALE_BROKER_EPOCH,
    UNCLEAN_IS_OUT,
    Leaderships,
    check_deleted,
    check_replicas,
    check_same_prefix,
)
from odradek.sim.eligible_replicas import leaves_eligible_replica
from odradek.sim.history import Deletion, EndOffset, History, IsrView, Outcome, Read, Send
from odradek.sim.quorum_history import LogBatch
from odradek.sim.replica_history import CommittedRecord, Copies, IsrChange, MetadataEnd, ReplicaHistory, UncleanEnd
from odradek.sim.stored_log import StoredBatch

ORDERS = TopicPartition("orders0", 0)
TOPIC_ID = UUID(int=7)


def registered(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=broker_id),
        broker_epoch=broker_id,
        end_points=(),
        features=(),
        rack=None,
    )


def changed(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


def unfenced(broker_id: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=-1)


def fenced(broker_id: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=1)


BEGIN: tuple[MetadataRecord, ...] = (
    *(registered(broker_id) for broker_id in (1, 2, 3)),
    *(unfenced(broker_id) for broker_id in (1, 2, 3)),
    TopicRecord(name="orders0", topic_id=TOPIC_ID),
    ConfigRecord(resource_type=2, resource_name="orders0", name="min.insync.replicas", value="2"),
    PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    ),
)
END = MetadataEnd(1, len(BEGIN))


def history_of(*more: MetadataRecord) -> ReplicaHistory:
    history = ReplicaHistory()
    records = (*BEGIN, *more)
    history.metadata = tuple(CommittedRecord(END.epoch, offset, record) for offset, record in enumerate(records))
    history.metadata_batches = tuple(LogBatch(offset, offset, 1, 0) for offset in range(len(records)))
    return history


def rules(history: ReplicaHistory, seen: History | None = None) -> list[str]:
    return [violation.rule for violation in check_replicas(history, seen or History())]


def test_the_records_of_a_correct_controller_have_no_violations() -> None:
    history = history_of(
        changed(isr=(2, 3), leader=2),
        fenced(1),
        changed(isr=(2,), eligible_leader_replicas=(3,)),
        fenced(3),
        changed(isr=(), leader=-1, eligible_leader_replicas=(2, 3), last_known_elr=(2,)),
        fenced(2),
        unfenced(3),
        changed(isr=(3,), leader=3, eligible_leader_replicas=(2,), last_known_elr=()),
    )
    assert rules(history) == []


def test_crashes_always_leave_an_eligible_replica() -> None:
    def spared(*doubtful: int, after: tuple[MetadataRecord, ...] = ()) -> bool:
        model = ClusterModel()
        for one in history_of(*after).metadata:
            model.take(one)
        return leaves_eligible_replica(model, [ORDERS], set(doubtful))

    assert spared(1)
    # The third may be fenced while the two that died still count as in sync.
    assert not spared(1, 2)
    shrunk = (changed(isr=(1,), eligible_leader_replicas=(2,)),)
    assert spared(1, 3, after=shrunk)
    assert not spared(1, 2, after=shrunk)
    alone = (changed(isr=(1,), eligible_leader_replicas=()),)
    assert not spared(1, after=alone)


def test_isr_and_elr_are_disjoint() -> None:
    assert rules(history_of(changed(isr=(1,), eligible_leader_replicas=(1, 2)))) == [ISR_AND_ELR]
    assert rules(history_of(changed(isr=(1, 2), eligible_leader_replicas=(3,)))) == [ISR_AND_ELR]
    assert rules(history_of(fenced(3))) == [ISR_AND_ELR]
    assert rules(history_of(changed(isr=(2, 3)))) == [ISR_AND_ELR]


def test_only_isr_or_elr_members_are_elected() -> None:
    alone = changed(isr=(1,), eligible_leader_replicas=())
    assert rules(history_of(alone, changed(isr=(2,), leader=2))) == [ELIGIBLE_LEADER]
    gone = changed(isr=(), leader=-1, last_known_elr=(1,))
    assert rules(history_of(alone, gone, changed(isr=(1,), leader=1))) == []
    assert rules(history_of(alone, gone, changed(isr=(3,), leader=3))) == [ELIGIBLE_LEADER]


def test_a_broker_leaves_the_isr_after_an_unclean_shutdown() -> None:
    for isr, expected in (((1, 2), []), ((1, 2, 3), [ISR_AND_ELR, UNCLEAN_IS_OUT])):
        history = history_of(changed(isr=isr), registered(3))
        history.unclean_ends.append(UncleanEnd(3, 1.0, END))
        assert sorted(set(rules(history))) == sorted(expected)


def test_a_registration_counts_although_the_last_metadata_end_was_not_committed() -> None:
    history = history_of(changed(isr=(1, 2)), registered(3), unfenced(3), changed(isr=(1, 2, 3)))
    stopped = (changed(isr=(1,), eligible_leader_replicas=(3,)), fenced(2), fenced(3), registered(3))
    *before, back = history_of(*(one.record for one in history.metadata[len(BEGIN) :]), *stopped).metadata
    # The next leader's first records replace uncommitted records of its predecessor.
    history.metadata = tuple(one._replace(epoch=END.epoch + (one.offset >= len(BEGIN))) for one in (*before, back))
    history.unclean_ends.append(UncleanEnd(3, 1.0, MetadataEnd(END.epoch, len(BEGIN) + 3)))
    assert rules(history) == []
    history.unclean_ends.append(UncleanEnd(3, 2.0, MetadataEnd(END.epoch + 1, back.offset)))
    assert rules(history) == [UNCLEAN_IS_OUT]


def test_an_isr_change_with_a_stale_broker_epoch_is_a_violation() -> None:
    for broker_epoch, expected in ((3, []), (-1, []), (2, [STALE_BROKER_EPOCH])):
        history = history_of(changed(isr=(1, 2)), changed(isr=(1, 2, 3)))
        history.isr_changes.append(IsrChange(TOPIC_ID, 0, 2, ((1, 1), (2, 2), (3, broker_epoch)), 1.0))
        assert rules(history) == expected


def send(offset: int, checksum: int, ended: float = 1.0) -> Send:
    return Send(
        producer="producer",
        is_idempotent=True,
        partition=ORDERS,
        values=(b"value",),
        began=0.0,
        ended=ended,
        outcome=Outcome.DONE,
        offset=offset,
        checksum=checksum,
    )


def copies(logs: dict[int, tuple[StoredBatch, ...]], **marks: int) -> Copies:
    return Copies(
        seconds=2.0,
        partition=ORDERS,
        metadata=END,
        logs=logs,
        high_watermarks={int(name[1:]): mark for name, mark in marks.items()},
        is_thorough=True,
    )


def test_eligible_replicas_have_all_acknowledged_records() -> None:
    batch, other = StoredBatch(0, 0, 0, 11), StoredBatch(0, 0, 0, 12)
    for logs, expected in (
        ({1: (batch,), 2: (batch,), 3: (batch,)}, []),
        ({1: (batch,), 2: (batch,)}, [HAS_EVERYTHING]),
        ({1: (batch,), 2: (batch,), 3: (other,)}, [HAS_EVERYTHING]),
    ):
        history = history_of()
        history.copies.append(copies(logs))
        seen = History()
        seen.sends.append(send(0, 11))
        assert rules(history, seen) == expected
        seen.deletions.append(Deletion(partition=ORDERS, offset=1, began=2.5))
        assert rules(history, seen) == expected
        history.unclean_ends.append(UncleanEnd(3, 1.5, END))
        assert rules(history, seen) == []


def test_deleted_records_may_be_missing() -> None:
    """Simulated with seed 1039 of replicas-deposed: a follower kept what its leader had deleted, and it had another."""
    batch, other = StoredBatch(0, 0, 0, 11), StoredBatch(0, 0, 0, 12)
    history = history_of()
    history.copies.append(copies({1: (batch,), 2: (batch,), 3: (other,)}, b1=1, b2=1, b3=1))
    seen = History()
    seen.sends.append(send(0, 11))
    assert sorted(rules(history, seen)) == sorted([HAS_EVERYTHING, LOGS_AGREE])
    seen.deletions.append(Deletion(partition=ORDERS, offset=1, began=0.5))
    assert rules(history, seen) == []


def test_late_acknowledged_records_may_have_been_deleted() -> None:
    """Simulated with seed 40027 of replicas-flushed."""
    late = send(0, 11, ended=2.0)
    history = history_of()
    history.copies.append(replace(copies({}), unsynced=(late, frozenset({1, 2})), is_thorough=False))
    seen = History()
    assert rules(history, seen) == [ALL_SYNCED]
    seen.deletions.append(Deletion(partition=ORDERS, offset=1, began=1.5))
    assert rules(history, seen) == []


def test_logs_agree_below_the_lowest_high_watermark() -> None:
    one, other = StoredBatch(0, 0, 0, 11), StoredBatch(0, 0, 0, 12)
    assert not list(check_same_prefix([copies({1: (one,), 2: (other,)}, b1=1, b2=0)], History()))
    both = copies({1: (one,), 2: (other,)}, b1=1, b2=1)
    assert [found.rule for found in check_same_prefix([both], History())] == [LOGS_AGREE]


def read(began: float, high_watermark: int, epoch: int = 0, **fields: object) -> Read:
    return Read(
        reader="reader",
        partition=ORDERS,
        fetch_offset=0,
        began=began,
        ended=began + 0.1,
        records=fields.get("records", ()),  # type: ignore[arg-type]
        high_watermark=high_watermark,
        leader_epoch=epoch,
    )


def test_below_min_isr_the_high_watermark_does_not_advance() -> None:
    short = (changed(isr=(1,), eligible_leader_replicas=(2, 3)),)
    enough = (*short, changed(isr=(1, 2), eligible_leader_replicas=()))
    again = (*enough, *short)
    for records, marks, expected in (
        (short, (5, 5, 5), []),
        (short, (5, 5, 6), [MIN_ISR]),
        (enough, (5, 5, 6), []),
        (enough, (5, 6, 6), [MIN_ISR]),
        # The ISR may have been large enough between the two observations.
        (again, (5, 6, 6), []),
    ):
        seen = History()
        for began in (1.0, 4.0):
            view = IsrView(partition=ORDERS, leader_epoch=0, isr=(1,), began=began, ended=began + 0.1)
            seen.isr_views.append(view)
        seen.reads.extend(read(began, mark) for began, mark in zip((2.0, 3.0, 5.0), marks, strict=True))
        assert rules(history_of(*records), seen) == expected
        if records is enough:
            # The leader received the response before it applied the record of the metadata log.
            listener = history_of(*records)
            listener.isr_changes.append(IsrChange(TOPIC_ID, 0, 2, ((1, 1), (2, 2)), 2.5))
            assert rules(listener, seen) == []


def end(began: float, offset: int, epoch: int) -> EndOffset:
    return EndOffset(partition=ORDERS, began=began, ended=began + 0.1, offset=offset, leader_epoch=epoch)


def test_end_offsets_never_decrease_from_one_epoch_to_the_next() -> None:
    def found(*ends: EndOffset, sends: tuple[Send, ...] = (), reads: tuple[Read, ...] = ()) -> int:
        return len(list(check_ends_of_epochs(ORDERS, sends, reads, ends)))

    assert found(end(1, 5, 0), end(2, 5, 1), end(3, 6, 1)) == 0
    # A deposed leader may respond late, and with a lower offset.
    assert found(end(1, 5, 1), end(2, 4, 0)) == 0
    assert found(end(1, 5, 0), end(2, 4, 1)) == 1
    assert found(end(1, 5, 0), end(2, 4, 0)) == 1
    written = Read(**{**_fields(read(5, 9)), "records": ((5, b"value"),), "epochs": (1,)})
    assert found(end(3, 5, 1), sends=(send(5, 0),), reads=(written,)) == 1
    assert found(end(3, 5, 0), sends=(send(5, 0),), reads=(written,)) == 0
    # It was sent again to the next leader, which acknowledged what the one before had written.
    again = replace(send(5, 0), leader_epoch=2)
    assert found(end(3, 5, 1), sends=(again,), reads=(written,)) == 0
    assert found(end(3, 5, 2), sends=(again,), reads=(written,)) == 1
    assert found(reads=(read(1, 5), read(2, 4))) == 1
    assert found(reads=(read(1, 5), read(2, 4, epoch=1))) == 0


def _fields(one: Read) -> dict[str, object]:
    return {name: getattr(one, name) for name in Read.__slots__}


def test_read_records_stay_unless_deleted() -> None:
    reads = [read(1, 2, records=((0, b"a"), (1, b"b")))]
    assert not list(check_read_stays(ORDERS, reads, {0: b"a", 1: b"b"}))
    assert len(list(check_read_stays(ORDERS, reads, {0: b"a"}))) == 1
    assert not list(check_read_stays(ORDERS, reads, {1: b"b"}, start_offset=1))
    deletion = Deletion(partition=ORDERS, offset=1, began=0.4, ended=0.5, leader_epoch=0)
    together = Leaderships()
    assert len(list(check_deleted([deletion], reads, [], together))) == 1
    died = [UncleanEnd(broker_id, 0.6, END) for broker_id in (1, 2)]
    assert len(list(check_deleted([deletion], reads, died[:1], together))) == 1
    assert not list(check_deleted([deletion], reads, died, together))
    alone = Leaderships(alone={(ORDERS, 0): 1})
    assert len(list(check_deleted([deletion], reads, [], alone))) == 1
    assert not list(check_deleted([deletion], reads, died[:1], alone))
    # Only a later leader that is alone in the ISR may also lose the deletion.
    alone_later = Leaderships(alone={(ORDERS, 1): 1})
    reads_later = [read(1, 2, epoch=2, records=((0, b"a"), (1, b"b")))]
    assert not list(check_deleted([deletion], reads_later, died[:1], alone_later))
    assert len(list(check_deleted([deletion], reads_later, died[1:], alone_later))) == 1
    later = [read(1, 2, epoch=2, records=((0, b"a"), (1, b"b")))]
    assert not list(check_deleted([deletion], later, [], Leaderships({ORDERS: [2]})))
    assert len(list(check_deleted([deletion], later, [], Leaderships({ORDERS: [0, 3]})))) == 1
    deletion.leader_epoch = 1
    assert not list(check_deleted([deletion], reads, [], together))
    assert not list(check_deleted([Deletion(partition=ORDERS, offset=1, began=0.4)], reads, [], together))
