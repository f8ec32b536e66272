"""One coordinator at work: a shard, the partition that it writes to, and the responses that are pending.

A context lives for one leader epoch. It replays the partition's log into a new shard, then executes one operation after
the other: it appends the records of a result and replays them before it executes the next operation, except that
independent commands share a batch. It completes responses when the records are committed. Only the disk makes it wait,
and no operation has a task of its own. It does not know what the commands of the shard mean.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Generic

from odradek.base.background import start_task
from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError, WorkerFailed
from odradek.base.ports import Clock, Workers
from odradek.base.record_form import UnreadableRecord
from odradek.broker.coordinators.batch_writer import BatchWriter
from odradek.broker.coordinators.deadline_timer import DeadlineTimer
from odradek.broker.coordinators.loader import LogLoader
from odradek.broker.coordinators.partition_writer import PartitionWriter, Write
from odradek.broker.coordinators.pending_writes import PendingWrites
from odradek.broker.coordinators.shard import A, C, CoordinatorKind, CoordinatorShard, R, Result, Token, UnservedRecord
from odradek.broker.coordinators.shared_batch import SharedBatch
from odradek.broker.coordinators.steady_clock import SteadyClock
from odradek.records.batch import NO_PRODUCER_ID, CorruptBatch
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import InvalidRecords
from odradek.storage.partition.partition import Partition

logger = logging.getLogger(__name__)

# Expired deadlines that are handled before the loop runs other callbacks.
DEADLINES_PER_TURN_MAX: Final = 64
# Before a load is repeated that failed for a reason that may go away: too many open files, for example.
RELOAD_SECONDS: Final = 1.0
# After a bug in a shard, or an append by another writer: the log is right, and the shard is not.
DIVERGED: Final = "The coordinator of %s has diverged from its log. Loading it again."
LOAD_FAILED: Final = "Cannot load the coordinator of %s"


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_UNAVAILABLE: Final = {
    State.LOADING: ErrorCode.coordinator_load_in_progress,
    State.FAILED: ErrorCode.not_coordinator,
    State.CLOSED: ErrorCode.not_coordinator,
}

Operation = Callable[[int], Write | None]
"""Given the time, returns what has to be appended, if anything."""


class CoordinatorContext(Generic[C, A, R]):
    def __init__(
        self,
        partition: Partition,
        kind: CoordinatorKind[C, A, R],
        *,
        clock: Clock,
        workers: Workers,
        on_disk_failure: Callable[[str, OSError], None],
        reload: Callable[[Partition], None],
    ) -> None:
        """`reload` replaces this context by a new one, because its shard no longer matches the log."""
        self.partition: Final = partition
        self.leader_epoch: Final = partition.leader_epoch
        self._kind: Final = kind
        self._shard: Final = kind.new_shard(partition.name.partition, partition.leader_epoch)
        self._time: Final = SteadyClock(clock)
        self._clock: Final = clock
        self._workers: Final = workers
        self._on_disk_failure: Final = on_disk_failure
        self._reload: Final = reload
        self._writer: Final = BatchWriter(kind.encode, kind.settings.compression)
        self._pending_writes: Final = PendingWrites(kind.settings.write_timeout_ms / 1000)
        self._state = State.LOADING
        self._partition_writer: Final = PartitionWriter(partition, clock=clock, on_disk_failure=on_disk_failure)
        self._queue: Final[deque[Operation]] = deque()
        # The independent commands of the last operation in the queue, while more may share its batch.
        self._shared_commands: deque[tuple[C, Token]] | None = None
        self._is_executing = False
        self._pending: Final[dict[Token, DeferredResponse]] = {}
        self._next_token = 0
        self._pending_markers: Final[dict[DeferredResponse, None]] = {}
        self._timer: Final = DeadlineTimer(self._on_deadline)
        self._reload_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    # ---- commands

    @property
    def is_active(self) -> bool:
        return self._state is State.ACTIVE

    @property
    def unavailable(self) -> ErrorCode:
        """Why it executes no commands, while it is not active."""
        return _UNAVAILABLE[self._state]

    @property
    def shard(self) -> CoordinatorShard[C, A, R]:
        """For reads only, and only while active."""
        self._shard.advance_high_watermark(self.partition.high_watermark)
        return self._shard

    def submit(self, command: C) -> DeferredResponse:
        """Executes the command. The result is the coordinator's response to it, which may be complete at once."""
        if self._state is not State.ACTIVE:
            return DeferredResponse.from_result(self._kind.error_response(command, self.unavailable))
        deferred = DeferredResponse(command)
        token = self._next_token = self._next_token + 1
        self._pending[token] = deferred
        if not self._kind.is_independent(command):
            self._enqueue(lambda now_ms: self._build_write(self._shard.handle(command, token, now_ms)))
        else:
            # It shares a batch with the other independent commands of this turn of the loop, or with those that arrive
            # while the disk is slow.
            if self._shared_commands is None:
                self._shared_commands = deque()
                self._queue.append(partial(self._execute_shared, self._shared_commands))
                asyncio.get_running_loop().call_soon(self._run_queue)
            self._shared_commands.append((command, token))
        return deferred

    def schedule(self, operation: Callable[[CoordinatorShard[C, A, R], int], Result[A, R]]) -> None:
        """Executes an operation that no client requested, now or as soon as the log is loaded."""
        if self._state in (State.LOADING, State.ACTIVE):
            self._enqueue(lambda now_ms: self._build_write(operation(self._shard, now_ms)))

    def end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, transaction_version: int
    ) -> DeferredResponse:
        """Writes the marker. The result is an error code, when the marker is committed or cannot be."""
        if self._state is not State.ACTIVE:
            return DeferredResponse.from_result(self.unavailable)
        written = DeferredResponse()

        def replay(offset: int) -> None:
            self._shard.replay_marker(producer_id, commits=marker.committed, offset=offset)

        def build(_: int) -> Write:
            data = build_end_transaction(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=self._clock.wall_ms()
            )
            on_appended = partial(self._complete_marker, written)
            return Write([(bytearray(data), replay)], on_appended, transaction_version)

        self._pending_markers[written] = None
        self._enqueue(build)
        return written

    # ---- leadership

    def load(self) -> None:
        self._shard.advance_high_watermark(self.partition.high_watermark)
        if self.partition.log.log_start_offset == self._partition_writer.end_offset:
            self._activate_when_committed()
        else:
            self._task = start_task(f"load of {self.partition.name}", self._replay_log())

    def close(self) -> None:
        """This broker no longer leads, or leads in another epoch. Completes every pending response."""
        was_active = self._state is State.ACTIVE
        self._state = State.CLOSED
        if self._task is not None:
            self._task.cancel()
        if self._reload_timer is not None:
            self._reload_timer.cancel()
        self._timer.cancel()
        self._queue.clear()
        self._pending_writes.close()
        if was_active:
            for token, response in self._shard.on_unloaded(self._time.now_ms()).responses:
                self._respond(token, response)
        for token, pending in list(self._pending.items()):
            self._respond(token, self._kind.error_response(pending.request, ErrorCode.not_coordinator))
        for written in list(self._pending_markers):
            written.complete(ErrorCode.not_coordinator)
        self._pending_markers.clear()

    async def _replay_log(self) -> None:
        name, log, log_dir = self.partition.name, self.partition.log, self.partition.log_dir
        started = self._clock.monotonic()
        loader = LogLoader(
            self.partition,
            self._shard,
            decode=self._kind.decode,
            now_ms=self._time.now_ms,
            workers=self._workers,
        )
        try:
            await loader.load(self._partition_writer.end_offset)
        except asyncio.CancelledError:
            raise
        except OSError as error:
            self._fail_to_load(error)
            self._schedule_reload()
            # The log dir of the read: the partition may have moved to another one since.
            self._on_disk_failure(log_dir, error)
        except WorkerFailed as error:
            self._fail_to_load(error)
            self._schedule_reload()
        except (KafkaError, CorruptBatch, InvalidRecords, UnreadableRecord, UnservedRecord) as error:
            self._fail_to_load(error)
            if self.partition.log is not log:
                # The partition has moved to another log dir meanwhile.
                self._schedule_reload()
        except Exception:
            logger.exception(LOAD_FAILED, name)
            self._state = State.FAILED
        else:
            seconds = self._clock.monotonic() - started
            logger.info(
                "Loaded %d records of %s in epoch %d in %.1f s", loader.records, name, self.leader_epoch, seconds
            )
            self._activate_when_committed()

    def _fail_to_load(self, error: Exception) -> None:
        self._state = State.FAILED
        logger.error(LOAD_FAILED + ": %s", self.partition.name, error)

    def _schedule_reload(self) -> None:
        """If the log dir goes offline or the leader changes before, `close` cancels it."""
        self._reload_timer = asyncio.get_running_loop().call_later(RELOAD_SECONDS, self._reload, self.partition)

    def _activate_when_committed(self) -> None:
        """A new leader may not know yet that its last records were committed, and seen by clients of the former one."""

        def activate(committed: DeferredResponse) -> None:
            if self._state is State.LOADING and _commit_error(committed) is ErrorCode.none:
                self._activate()

        self.partition.defer_until_committed(self._partition_writer.end_offset, self.leader_epoch).on_complete(activate)

    def _activate(self) -> None:
        self._shard.advance_high_watermark(self.partition.high_watermark)
        try:
            results = self._shard.on_loaded(self._time.now_ms())
        except Exception:
            logger.exception(LOAD_FAILED, self.partition.name)
            self._state = State.FAILED
            return
        self._state = State.ACTIVE
        # Before the operations that were scheduled while it loaded.
        for result in reversed(results):
            self._queue.appendleft(lambda _, result=result: self._build_write(result))  # type: ignore[misc]
        self._run_queue()

    # ---- operations

    def _enqueue(self, operation: Operation) -> None:
        self._shared_commands = None
        self._queue.append(operation)
        self._run_queue()

    def _run_queue(self) -> None:
        """Executes one operation after the other, until an append has to wait for the disk."""
        if self._is_executing or self._state is not State.ACTIVE:
            return
        self._is_executing = True
        try:
            while self._queue and self._state is State.ACTIVE:
                self._shard.advance_high_watermark(self.partition.high_watermark)
                write = self._queue.popleft()(self._time.now_ms())
                if write is None:
                    continue
                code = self._partition_writer.append(write)
                if code is None:
                    self._task = start_task(f"append to {self.partition.name}", self._append_exclusively(write))
                    return
                write.on_appended(code)
            if self._state is State.ACTIVE:
                self._timer.set(self._shard.next_deadline_ms(), self._time.now_ms)
        except Exception:
            logger.exception(DIVERGED, self.partition.name)
            self._reload(self.partition)
        self._is_executing = False

    def _execute_shared(self, commands: deque[tuple[C, Token]], now_ms: int) -> Write | None:
        """Executes independent commands: none of them depends on the records of those before it."""
        self._shared_commands = None
        shared = SharedBatch[A, R](self._writer, self.partition.log.config.max_message_bytes, self._clock.wall_ms())
        while commands:
            result = self._shard.handle(*commands.popleft(), now_ms)
            if not shared.try_add(result):
                self._queue.appendleft(partial(self._execute_shared, commands))
                self._queue.appendleft(lambda _, result=result: self._build_write(result))  # type: ignore[misc]
                break
        self._on_appended(shared.without_records, ErrorCode.none)
        if not shared.results:
            return None
        replay = partial(self._replay_all, shared.records, NO_PRODUCER_ID)
        return Write([(shared.batch(), replay)], partial(self._on_appended, shared.results))

    def _build_write(self, result: Result[A, R] | None) -> Write | None:
        if result is None:
            return None
        if not result.records:
            self._on_appended((result,), ErrorCode.none)
            return None
        try:
            batches = self._writer.batches(
                result.records,
                is_atomic=result.is_atomic,
                producer=result.producer,
                max_bytes=self.partition.log.config.max_message_bytes,
                now_ms=self._clock.wall_ms(),
            )
        except KafkaError as error:
            self._on_appended((result,), error.code)
            return None
        return Write(
            [(data, partial(self._replay, result, records)) for data, records in batches],
            partial(self._on_appended, (result,)),
        )

    async def _append_exclusively(self, write: Write) -> None:
        """The disk is slow: the shard executes nothing before this is appended."""
        try:
            code = await self._partition_writer.append_exclusively(write, lambda: self._state is State.ACTIVE)
            if self._state is State.ACTIVE:
                write.on_appended(code)
        except Exception:
            logger.exception(DIVERGED, self.partition.name)
            self._reload(self.partition)
        self._is_executing = False
        self._run_queue()

    def _replay(self, result: Result[A, R], records: Sequence[R], first_offset: int) -> None:
        if result.replays:
            self._replay_all(records, NO_PRODUCER_ID if result.producer is None else result.producer.id, first_offset)

    def _replay_all(self, records: Sequence[R], producer_id: int, first_offset: int) -> None:
        now_ms = self._time.now_ms()
        # A single replica has committed them already: the shard then need not keep the values before.
        self._shard.advance_high_watermark(self.partition.high_watermark)
        replay = self._shard.replay
        for offset, record in enumerate(records, first_offset):
            replay(record, offset, now_ms, producer_id)

    # ---- responses

    def _on_appended(self, results: Sequence[Result[A, R]], code: ErrorCode) -> None:
        for result in results:
            for token, response in result.responses:
                self._respond(token, response)
        waiting = [result for result in results if result.responses_after_commit or result.write_event is not None]
        if waiting:
            self._defer_until_committed(code).on_complete(partial(self._on_committed, waiting))

    def _defer_until_committed(self, code: ErrorCode) -> DeferredResponse:
        """`code` is that of the append."""
        end_offset = self._partition_writer.end_offset
        if code is not ErrorCode.none or self.partition.high_watermark >= end_offset:
            return DeferredResponse.from_result(code)
        deferred = self.partition.defer_until_committed(end_offset, self.leader_epoch)
        self._pending_writes.add(deferred)
        return deferred

    def _on_committed(self, results: Sequence[Result[A, R]], committed: DeferredResponse) -> None:
        """Results that share a batch are committed together, or fail together."""
        code = _commit_error(committed)
        for result in results:
            for token, response in result.responses_after_commit:
                pending = self._pending.pop(token, None)
                if pending is not None:
                    is_committed = code is ErrorCode.none
                    pending.complete(response if is_committed else self._kind.error_response(pending.request, code))
            event = result.write_event
            if event is not None:
                self._enqueue(lambda now_ms, of=event: self._build_write(self._shard.on_written(of, code, now_ms)))  # type: ignore[misc]

    def _complete_marker(self, written: DeferredResponse, code: ErrorCode) -> None:
        def complete(committed: DeferredResponse) -> None:
            self._pending_markers.pop(written, None)
            written.complete(_commit_error(committed))

        self._defer_until_committed(code).on_complete(complete)

    def _respond(self, token: Token, response: Any) -> None:
        pending = self._pending.pop(token, None)
        if pending is not None:
            pending.complete(response)

    # ---- time

    def _on_deadline(self) -> None:
        self._enqueue(partial(self._expire_deadlines, DEADLINES_PER_TURN_MAX))

    def _expire_deadlines(self, count_max: int, now_ms: int) -> Write | None:
        result = self._shard.expire_deadline(now_ms)
        if result is not None and count_max > 1:
            self._queue.appendleft(partial(self._expire_deadlines, count_max - 1))
        return self._build_write(result)


def _commit_error(committed: DeferredResponse) -> ErrorCode:
    """A coordinator's records are committed whatever the ISR has shrunk to by then."""
    code: ErrorCode = committed.result
    return ErrorCode.none if code is ErrorCode.not_enough_replicas_after_append else code
