"""Whoever waits until nothing is under way for a transaction is woken then, and when its coordinator goes."""

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.transactions import TransactionMachine
from odradek.core.transactions.commands import (
    EPOCHS_RISE_SINCE,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Markers,
)
from odradek.core.transactions.outcome import Outcome
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.broker.coordinators.tally import run

NAME, PARTITION = "x", TopicPartition("t", 0)
PRODUCER_ID = 7


class Stage:
    """A machine whose records are committed at once, and whose markers nobody has written yet."""

    def __init__(self) -> None:
        self.markers: list[Markers] = []
        self.machine = TransactionMachine(
            0,
            TransactionSettings(),
            coordinator_epoch=0,
            transaction_version=lambda: EPOCHS_RISE_SINCE,
            new_producer_id=lambda: PRODUCER_ID,
            send=lambda _, markers: self.markers.append(markers),
        )
        self.commit(self.machine.handle(InitProducerId(NAME, 60_000), 1, 0))
        added = AddPartitions(NAME, PRODUCER_ID, 0, frozenset((PARTITION,)), EPOCHS_RISE_SINCE)
        self.commit(self.machine.handle(added, 2, 0))

    def commit(self, outcome: Outcome) -> None:
        while outcome.on_written is not None:
            outcome = self.machine.written(outcome.on_written, ErrorCode.none, 0)

    def end(self) -> None:
        self.commit(self.machine.handle(EndTransaction(NAME, PRODUCER_ID, 0, True, EPOCHS_RISE_SINCE), 3, 0))
        assert len(self.markers) == 1


def test_it_is_woken_when_the_end_is_on_record() -> None:
    async def work() -> None:
        stage = Stage()
        assert stage.machine.freed(NAME) is None
        stage.end()
        freed = stage.machine.freed(NAME)
        assert freed is not None and stage.machine.freed(NAME) is freed
        outcome = stage.machine.marked(stage.markers[0], (PARTITION,), 0)
        assert not freed.done()
        stage.commit(outcome)
        assert freed.done()
        assert stage.machine.freed(NAME) is None

    run(work())


def test_it_is_woken_when_the_coordinator_goes() -> None:
    async def work() -> None:
        stage = Stage()
        stage.end()
        freed = stage.machine.freed(NAME)
        assert freed is not None and not freed.done()
        stage.machine.unload(0)
        assert freed.done()

    run(work())


def test_what_is_not_known_is_not_waited_for() -> None:
    async def work() -> None:
        assert Stage().machine.freed("unknown") is None

    run(work())
