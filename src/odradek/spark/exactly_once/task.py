"""A task's part: to write its rows into a transaction that nobody else can have, unless the batch is done already."""

from itertools import count
from typing import NamedTuple

from odradek.spark.exactly_once.driver import Generation, Report
from odradek.spark.exactly_once.names import fresh_name
from odradek.spark.exactly_once.requests import (
    InitProducer,
    NotMyTurn,
    OutcomeUnknown,
    ReadState,
    Steps,
    WriteRows,
    until_known,
)
from odradek.spark.exactly_once.states import Begun, Decided, Prepared, Producer, State, last_finished


class Attempt(NamedTuple):
    """Where Spark runs this: nobody else has the same under one generation."""

    partition: int
    stage_attempt: int
    attempt: int


def write_batch(generation: Generation, batch: int, query: str, attempt: Attempt, *, has_rows: bool) -> Steps[Report]:
    """Steps 4 to 6. Raises Fenced if the batch went on without this attempt."""
    sink = generation.sink
    state: State | None = yield from until_known(ReadState(sink))
    if state is not None and state.query not in (None, query):
        raise NotMyTurn(f"{sink} belongs to another query, {state.query}: choose another name, or keep the checkpoint")
    if last_finished(state) >= batch or (isinstance(state, Decided) and state.batch == batch):
        return Report(None, query)
    if not isinstance(state, Begun) or state.number != generation.number:
        raise NotMyTurn(f"another driver of {sink} has taken over")
    if not has_rows:
        return Report(None, query)
    prepared = yield from _take_id(generation, attempt)
    # Not repeated after an unknown outcome: the client below repeats with sequence numbers, or gives up.
    yield WriteRows(*prepared)
    return Report(prepared, query)


def _take_id(generation: Generation, attempt: Attempt) -> Steps[Prepared]:
    is_first = attempt.stage_attempt == 0 and attempt.attempt == 0
    if is_first and attempt.partition < len(generation.pool):
        listed = generation.pool[attempt.partition]
        if listed is not None:
            return listed
    for attempted in count():
        name = fresh_name(generation.sink, generation.number, *attempt, attempted)
        try:
            producer: Producer = yield InitProducer(name)
        except OutcomeUnknown:
            # It may still be on its way, and would abort what is written meanwhile: that name is spent.
            continue
        return Prepared(name, producer)
    raise AssertionError("unreachable")
