"""The task's part of the protocol: writes its rows in a transaction of its own, unless the batch is already done."""

from itertools import count

from odradek.pipelines.spark.exactly_once.driver import Generation, Report
from odradek.pipelines.spark.exactly_once.names import new_task_id
from odradek.pipelines.spark.exactly_once.requests import (
    InitProducer,
    OutcomeUnknown,
    ReadState,
    Steps,
    Superseded,
    TakeTicket,
    WriteRows,
    retry_until_known,
)
from odradek.pipelines.spark.exactly_once.states import Begun, Decided, Prepared, Producer, State, last_finished_batch


def write_batch(generation: Generation, batch: int, query: str, attempt: int, *, has_rows: bool) -> Steps[Report]:
    """Steps 4 to 6. `attempt` is unique under this generation.

    Raises Fenced if the batch continued without this attempt.
    """
    sink = generation.sink
    state: State | None = yield from retry_until_known(ReadState(sink))
    if state is not None and state.query not in (None, query):
        raise Superseded(
            f"Sink {sink} belongs to another query, {state.query}. Choose another kafka.transactional.id, or use that "
            "query's checkpoint."
        )
    if last_finished_batch(state) >= batch or (isinstance(state, Decided) and state.batch == batch):
        return Report(None, query)
    if not isinstance(state, Begun) or state.number != generation.number:
        raise Superseded(f"Another driver has taken over sink {sink}.")
    if not has_rows:
        return Report(None, query)
    prepared = yield from _take_id(generation, attempt)
    # Never repeat after an unknown outcome: the client retries with sequence numbers, or fails.
    yield WriteRows(*prepared)
    return Report(prepared, query)


def _take_id(generation: Generation, attempt: int) -> Steps[Prepared]:
    pooled = yield from _take_pooled_id(generation)
    if pooled is not None:
        return pooled
    for attempted in count():
        name = new_task_id(generation.sink, generation.number, attempt, attempted)
        try:
            producer: Producer = yield InitProducer(name)
        except OutcomeUnknown:
            # The request may still arrive and abort what is written by then, so do not use this ID.
            continue
        return Prepared(name, producer)
    raise AssertionError("unreachable")


def _take_pooled_id(generation: Generation) -> Steps[Prepared | None]:
    """Take the pool entry of a new ticket. Two attempts at the same rows have different tickets."""
    if not generation.pool:
        return None
    try:
        ticket: int = yield TakeTicket(generation.sink)
    except OutcomeUnknown:
        return None
    place = ticket - generation.first_ticket
    return generation.pool[place] if 0 <= place < len(generation.pool) else None
