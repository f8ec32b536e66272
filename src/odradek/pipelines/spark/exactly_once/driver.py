"""The driver's part of the protocol: begins, commits and aborts batches. Its only state is `Generation`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.pipelines.spark.exactly_once.names import number_of, task_id_prefix
from odradek.pipelines.spark.exactly_once.requests import (
    BatchLost,
    EndedDifferently,
    EndTransaction,
    Fenced,
    FindOpen,
    InitProducer,
    ListOpen,
    NextTicket,
    NotDecided,
    ReadState,
    Steps,
    Superseded,
    WriteState,
    retry_until_known,
)
from odradek.pipelines.spark.exactly_once.states import (
    Begun,
    Decided,
    Finished,
    Prepared,
    Producer,
    State,
    Transactions,
    last_finished_batch,
)


class Report(NamedTuple):
    """A task's result. `prepared` is None if the task had no rows or its batch was already done."""

    prepared: Prepared | None
    query: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A driver that has begun a batch. Sent to the tasks and to the process that commits."""

    sink: str
    number: int
    producer: Producer
    pool: Transactions
    after: int
    first_ticket: int


def begin(sink: str, *, reuse_ids: bool = True) -> Steps[Generation]:
    """Steps 1 to 3. `reuse_ids`: EndTxn raises epochs here (transaction.version 2)."""
    producer: Producer = yield from retry_until_known(InitProducer(sink))
    state: State | None = yield from retry_until_known(ReadState(sink))
    if isinstance(state, Decided):
        producer, state = yield from _finish(sink, producer, state, reuse_ids=reuse_ids)
    begun = Begun(
        number=1 if state is None else state.number + 1,
        query=None if state is None else state.query,
        after=last_finished_batch(state),
        pool=state.pool if isinstance(state, Finished) else (),
    )
    # Before aborting anything: this write fails if another driver has taken over since the state was read.
    producer = yield WriteState(sink, producer, begun)
    yield from _abort_older(sink, begun)
    first_ticket: int = yield from retry_until_known(NextTicket(sink))
    return Generation(sink, begun.number, producer, begun.pool, begun.after, first_ticket)


def commit(generation: Generation, batch: int, reports: Sequence[Report], *, reuse_ids: bool = True) -> Steps[None]:
    """Steps 7 to 9, with the reports of all partitions in order.

    Raises Fenced, Superseded, NotDecided or OutcomeUnknown: the next driver finds out what was done. Raises BatchLost.
    """
    sink = generation.sink
    state: State | None = yield from retry_until_known(ReadState(sink))
    if last_finished_batch(state) >= batch:
        return
    if state is None or state.number != generation.number:
        raise Superseded(f"Another driver has taken over sink {sink}.")
    producer = generation.producer
    if isinstance(state, Begun):
        state = Decided(
            number=generation.number,
            query=reports[0].query if reports else state.query,
            batch=batch,
            winners=tuple(report.prepared for report in reports if report.prepared is not None),
            pool=generation.pool,
        )
        yield from _check_open(state)
        producer = yield WriteState(sink, producer, state)
    assert isinstance(state, Decided)
    yield from _finish(sink, producer, state, reuse_ids=reuse_ids)


def abort(generation: Generation, batch: int, reports: Sequence[Report]) -> Steps[None]:
    """Abort the batch unless it is decided. Spark also calls this after `commit` has failed."""
    sink = generation.sink
    if not _is_begun((yield from retry_until_known(ReadState(sink))), generation):
        return
    # A decision without a response may still arrive. The new epoch fences it.
    yield from retry_until_known(InitProducer(sink))
    if not _is_begun((yield from retry_until_known(ReadState(sink))), generation):
        return
    for report in reports:
        if report.prepared is not None:
            yield from _abort_one(report.prepared)


def _check_open(decided: Decided) -> Steps[None]:
    """Check for timed-out transactions, which are harmless until the decision is written."""
    names = tuple(winner.transactional_id for winner in decided.winners)
    found = yield from retry_until_known(FindOpen(names))
    for winner in decided.winners:
        if winner not in found:
            raise NotDecided(decided.batch, winner.transactional_id)


def _is_begun(state: State | None, generation: Generation) -> bool:
    return isinstance(state, Begun) and state.number == generation.number


def _finish(sink: str, producer: Producer, decided: Decided, *, reuse_ids: bool) -> Steps[tuple[Producer, Finished]]:
    """Steps 8 and 9, possibly of a previous driver."""
    pool: list[Prepared] = []
    for winner in decided.winners:
        pool.append((yield from _commit_one(sink, decided.batch, winner)))
    yield from _abort_others(sink, decided)
    finished = Finished(
        number=decided.number,
        query=decided.query,
        batch=decided.batch,
        pool=tuple(pool) if reuse_ids else (),
    )
    return (yield WriteState(sink, producer, finished)), finished


def _commit_one(sink: str, batch: int, winner: Prepared) -> Steps[Prepared]:
    try:
        following = yield from retry_until_known(EndTransaction(*winner, True))
    except (EndedDifferently, Fenced) as error:
        # If another driver has taken over, it may have reused the ID. The state shows whether it has.
        if last_finished_batch((yield from retry_until_known(ReadState(sink)))) >= batch:
            raise Superseded(f"Another driver has taken over sink {sink}.") from error
        raise BatchLost(batch, winner.transactional_id) from error
    return Prepared(winner.transactional_id, following)


def _abort_others(sink: str, decided: Decided) -> Steps[None]:
    """Abort only what is safe to abort even if another driver has taken over since the decision."""
    given = set(decided.pool)
    pooled = {one.transactional_id for one in decided.pool}
    for one in (yield from retry_until_known(ListOpen(task_id_prefix(sink)))):
        number = number_of(sink, one.transactional_id)
        if number == decided.number:
            is_mine = one.producer.epoch == 0
        elif one.transactional_id in pooled:
            is_mine = one in given
        else:
            is_mine = number < decided.number
        if is_mine and one not in decided.winners:
            yield from _abort_one(one)


def _abort_older(sink: str, begun: Begun) -> Steps[None]:
    """Abort the transactions of older drivers that no task can use any more."""
    kept = {one.transactional_id for one in begun.pool}
    for one in (yield from retry_until_known(ListOpen(task_id_prefix(sink)))):
        if number_of(sink, one.transactional_id) < begun.number and one.transactional_id not in kept:
            yield from _abort_one(one)


def _abort_one(one: Prepared) -> Steps[None]:
    try:
        yield from retry_until_known(EndTransaction(*one, False))
    except (EndedDifferently, Fenced):
        # Another driver has ended it in the meantime.
        return
