"""When a producer gets its response: immediately, or after the sync and after the ISR has the records."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.slices import Slices
from odradek.broker.apis.produce_results import appended_result, rejected_result
from odradek.broker.ports import BrokerPort
from odradek.records.batch import BatchHeader
from odradek.server.context import CLOSE_CONNECTION, RequestContext
from odradek.storage.log.partition_log import Appended
from odradek.storage.partition.partition import Partition
from odradek.wire.produce_codec import (
    SLICE_PARTITIONS,
    PartitionResult,
    ProduceRequest,
    TopicResult,
    produce_response_slices,
    write_produce_response,
)

NO_ACKS: Final = 0
ALL_ACKS: Final = -1


class Unacknowledged(NamedTuple):
    """An appended batch whose acknowledgement may have to wait for the sync and for the ISR."""

    partition: Partition
    leader_epoch: int
    appended: Appended
    batch: BatchHeader

    @property
    def end_offset(self) -> int:
        return self.appended.last_offset + 1

    def result(self, code: ErrorCode) -> PartitionResult:
        if code is not ErrorCode.none:
            return PartitionResult(self.partition.name.partition, code)
        return appended_result(self.partition, self.appended, self.batch)


# The result of a partition, or what it waits for, or the coroutine that returns it.
Outcome = PartitionResult | Unacknowledged | Awaitable[PartitionResult]
TopicOutcomes = tuple[str | None, UUID | None, list[Outcome]]


def conclude(outcomes: list[TopicOutcomes], request: ProduceRequest, context: RequestContext) -> Any:
    kinds = {one.__class__ for _, _, row in outcomes for one in row}
    if kinds <= {PartitionResult}:
        return respond([TopicResult(*outcome) for outcome in outcomes], request.acks, context)  # type: ignore[arg-type]
    if kinds <= {PartitionResult, Unacknowledged}:
        response = _CommitResponse(outcomes, request, context)
        response.start()
        return response
    return finish(outcomes, request, context)


class CommitWait(DeferredResponse):
    """Waits until everything that was appended is committed, and replaces each outcome by its result."""

    def __init__(self, outcomes: list[TopicOutcomes], request: ProduceRequest) -> None:
        """Does not keep the request, because that would keep its records in memory."""
        super().__init__()
        self._outcomes: Final = outcomes
        self._timeout_seconds: Final = _timeout_seconds(request)
        # One more than the number of partitions, so that immediate commits do not complete it too early.
        self._missing = 1
        self._timer: asyncio.TimerHandle | None = None

    def add(self, row: list[Outcome], start: int = 0) -> None:
        """Adds the outcomes of one topic, from the given place on."""
        for place in range(start, len(row)):
            outcome = row[place]
            if isinstance(outcome, Unacknowledged):
                self._missing += 1
                committed = outcome.partition.defer_until_committed(outcome.end_offset, outcome.leader_epoch)
                committed.on_complete(partial(self._on_commit, row, place, outcome))

    def start(self) -> None:
        """To be called when all outcomes are added."""
        self._missing -= 1
        if self._missing:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_seconds, self._time_out)
        else:
            self._complete_all()

    def cancel(self) -> None:
        super().cancel()
        self._stop_timer()

    def _on_commit(self, row: list[Outcome], place: int, outcome: Unacknowledged, committed: DeferredResponse) -> None:
        if self.is_done:
            return
        row[place] = outcome.result(committed.result)
        self._missing -= 1
        if not self._missing:
            self._complete_all()

    def _time_out(self) -> None:
        for _, _, row in self._outcomes:
            for place, outcome in enumerate(row):
                if isinstance(outcome, Unacknowledged):
                    row[place] = outcome.result(ErrorCode.request_timed_out)
        self._complete_all()

    def _complete_all(self) -> None:
        """Called by a commit or a timer: no failure of this response may reach them."""
        self._stop_timer()
        self.complete(None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _CommitResponse(CommitWait):
    """Everything is appended. It completes within the Fetch by which the last follower in the ISR gets it."""

    def __init__(self, outcomes: list[TopicOutcomes], request: ProduceRequest, context: RequestContext) -> None:
        super().__init__(outcomes, request)
        self.allows_next_request = True
        self._acks: Final = request.acks
        self._context: Final = context
        for _, _, row in outcomes:
            self.add(row)

    def _complete_all(self) -> None:
        self._stop_timer()
        topics = [TopicResult(*outcome) for outcome in self._outcomes]  # type: ignore[arg-type]
        self.complete(respond(topics, self._acks, self._context))


async def finish(outcomes: list[TopicOutcomes], request: ProduceRequest, context: RequestContext) -> Any:
    """Waits for all partitions concurrently."""
    waiting = [result_of(one, request) for _, _, row in outcomes for one in row if not isinstance(one, PartitionResult)]
    results = iter(await asyncio.gather(*waiting))
    topics = [
        TopicResult(name, topic_id, [one if isinstance(one, PartitionResult) else next(results) for one in row])
        for name, topic_id, row in outcomes
    ]
    return respond(topics, request.acks, context)


async def finish_in_slices(
    outcomes: list[TopicOutcomes],
    committed: CommitWait,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
) -> Any:
    """As `finish`, for thousands of partitions: `committed` waits for them without a task for each."""
    committed.start()
    others = [
        (row, place, one)
        for _, _, row in outcomes
        for place, one in enumerate(row)
        if not isinstance(one, PartitionResult | Unacknowledged)
    ]
    results = await asyncio.gather(*(one for _, _, one in others))
    for (row, place, _), result in zip(others, results, strict=True):
        row[place] = result
    await committed.wait()
    topics = [TopicResult(*outcome) for outcome in outcomes]  # type: ignore[arg-type]
    has_errors = await broker.slice_turns.run(_count_errors(topics, context))
    if request.acks == NO_ACKS:
        return CLOSE_CONNECTION if has_errors else None
    return await broker.slice_turns.run(produce_response_slices(topics, context.version))


def _count_errors(topics: list[TopicResult], context: RequestContext) -> Slices[bool]:
    """Whether there are any."""
    has_errors = False
    for topic in topics:
        for start in range(0, len(topic.partitions), SLICE_PARTITIONS):
            part = topic.partitions[start : start + SLICE_PARTITIONS]
            errors = [result.error for result in part if result.error is not ErrorCode.none]
            context.meter.count_errors(errors)
            has_errors = has_errors or bool(errors)
            yield
    return has_errors


async def result_of(outcome: Unacknowledged | Awaitable[PartitionResult], request: ProduceRequest) -> PartitionResult:
    if not isinstance(outcome, Unacknowledged):
        return await outcome
    try:
        async with asyncio.timeout(_timeout_seconds(request)):
            code = await outcome.partition.wait_for_commit(outcome.end_offset, outcome.leader_epoch)
    except TimeoutError:
        code = ErrorCode.request_timed_out
    return outcome.result(code)


def respond(topics: list[TopicResult], acks: int, context: RequestContext) -> Any:
    errors: list[ErrorCode] | None = None
    for topic in topics:
        for result in topic.partitions:
            if result.error is not ErrorCode.none:
                errors = errors or []
                errors.append(result.error)
    if errors is not None:
        context.meter.count_errors(errors)
    if acks != NO_ACKS:
        return write_produce_response(topics, context.version)
    if errors is not None:
        # With acks=0 there is no response: closing the connection makes the producer refresh its metadata.
        return CLOSE_CONNECTION
    return None


def _timeout_seconds(request: ProduceRequest) -> float:
    return max(0, request.timeout_ms) / 1000


async def wait_for_ack(written: Unacknowledged, request: ProduceRequest, broker: BrokerPort) -> PartitionResult:
    """Waits for the sync if the topic requires it, and for the ISR if the producer requires it (acks=all)."""
    partition = written.partition
    try:
        if partition.needs_sync():
            await partition.wait_for_sync(written.end_offset)
    except (KafkaError, OSError) as error:
        return rejected_result(partition.name.topic, partition.name.partition, error, broker)
    return written.result(ErrorCode.none) if request.acks != ALL_ACKS else await result_of(written, request)
