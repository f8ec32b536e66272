"""The completion of a pending transition is reported, also when the coordinator unloads."""

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.transaction_service import TransactionShard
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Markers,
)
from odradek.core.transactions.coordinator_result import CoordinatorResult
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.broker.coordinators.tally import run

NAME, PARTITION = "x", TopicPartition("t", 0)
PRODUCER_ID = 7


class Stage:
    """A shard whose records are committed at once, and whose markers are not written yet."""

    def __init__(self) -> None:
        self.markers: list[Markers] = []
        self.shard = TransactionShard(
            0,
            TransactionSettings(),
            coordinator_epoch=0,
            transaction_version=lambda: EPOCH_INCREMENTS_SINCE,
            new_producer_id=lambda: PRODUCER_ID,
            send=lambda _, markers: self.markers.append(markers),
        )
        self.commit(self.shard.handle(InitProducerId(NAME, 60_000), 1, 0))
        added = AddPartitions(NAME, PRODUCER_ID, 0, frozenset((PARTITION,)), EPOCH_INCREMENTS_SINCE)
        self.commit(self.shard.handle(added, 2, 0))

    def commit(self, result: CoordinatorResult) -> None:
        while result.write_event is not None:
            result = self.shard.on_written(result.write_event, ErrorCode.none, 0)

    def end(self) -> None:
        self.commit(self.shard.handle(EndTransaction(NAME, PRODUCER_ID, 0, True, EPOCH_INCREMENTS_SINCE), 3, 0))
        assert len(self.markers) == 1


def test_completion_is_done_when_the_end_is_committed() -> None:
    async def work() -> None:
        stage = Stage()
        assert stage.shard.completion_of(NAME) is None
        stage.end()
        freed = stage.shard.completion_of(NAME)
        assert freed is not None and stage.shard.completion_of(NAME) is freed
        result = stage.shard.on_markers_written(stage.markers[0], (PARTITION,), 0)
        assert not freed.done()
        stage.commit(result)
        assert freed.done()
        assert stage.shard.completion_of(NAME) is None

    run(work())


def test_completion_is_done_when_the_coordinator_unloads() -> None:
    async def work() -> None:
        stage = Stage()
        stage.end()
        freed = stage.shard.completion_of(NAME)
        assert freed is not None and not freed.done()
        stage.shard.on_unloaded(0)
        assert freed.done()

    run(work())


def test_unknown_transaction_has_no_completion() -> None:
    async def work() -> None:
        assert Stage().shard.completion_of("unknown") is None

    run(work())
