"""One coordinator at work: a machine, the partition it writes to while this broker leads it, and who waits for answers.

It lives for one leader epoch. It loads the partition's log into a new machine, then takes one step after the other: a
step's records are appended and replayed before the next step is taken, unless they do not depend on each other, and
its answers are given when what was appended is committed. Nothing here waits but for the disk, and no step has a task
of its own. What the machine decides is none of its business.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Generic

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Executor
from odradek.base.record_form import UnreadableRecord
from odradek.broker.coordinators.alarm import Alarm
from odradek.broker.coordinators.appending import Appender, Write
from odradek.broker.coordinators.gathering import Together
from odradek.broker.coordinators.loading import replay_log
from odradek.broker.coordinators.machine import A, C, CoordinatorKind, Machine, R, Step, Token, UnservedRecord
from odradek.broker.coordinators.parked import PendingWrites
from odradek.broker.coordinators.steady_clock import SteadyClock
from odradek.broker.coordinators.writing import BatchWriter
from odradek.records.batch import NO_PRODUCER_ID, CorruptBatch
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import InvalidRecords
from odradek.storage.partition.partition import Partition

logger = logging.getLogger(__name__)

# Deadlines that are passed before others have their turn on the loop.
DEADLINES_IN_A_ROW: Final = 64
# After a failure to load that may pass: too many open files, for one.
RETRY_SECONDS: Final = 1.0
# By a fault of ours, or of somebody who wrote to its partition: then the log is to be trusted, and the machine is not.
OUT_OF_STEP: Final = "the coordinator of %s is out of step with its log, and loaded again"

NOT_SERVED: Final = "%s could not be read: its coordinator is not served"


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_REFUSAL: Final = {
    State.LOADING: ErrorCode.coordinator_load_in_progress,
    State.FAILED: ErrorCode.not_coordinator,
    State.CLOSED: ErrorCode.not_coordinator,
}


class PartitionHost(Generic[C, A, R]):
    def __init__(
        self,
        partition: Partition,
        kind: CoordinatorKind[C, A, R],
        *,
        clock: Clock,
        executor: Executor,
        on_disk_failure: Callable[[str, OSError], None],
        out_of_step: Callable[[Partition], None],
    ) -> None:
        """`out_of_step` is called when the machine is not what its log says any more: it has to be loaded anew."""
        self.partition: Final = partition
        self.leader_epoch: Final = partition.leader_epoch
        self._kind: Final = kind
        self._machine: Final = kind.new_machine(partition.name.partition, partition.leader_epoch)
        self._time: Final = SteadyClock(clock)
        self._clock: Final = clock
        self._executor: Final = executor
        self._on_disk_failure: Final = on_disk_failure
        self._out_of_step: Final = out_of_step
        self._writer: Final = BatchWriter(kind.encode, kind.settings.compression)
        self._parked: Final = PendingWrites(kind.settings.write_timeout_ms / 1000)
        self._state = State.LOADING
        self._appender: Final = Appender(partition, clock=clock, on_disk_failure=on_disk_failure)
        # What is to be done next, given the time; each ends with something to write, or with nothing.
        self._due: Final[deque[Callable[[int], Write | None]]] = deque()
        # The last of them, while more may join it.
        self._gathering: deque[tuple[C, Token]] | None = None
        self._is_stepping = False
        self._pending: Final[dict[Token, DeferredResponse]] = {}
        self._next_token = 0
        self._ending: Final[dict[DeferredResponse, None]] = {}
        self._alarm: Final = Alarm(self._wake)
        self._retry: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    # ---- what others ask

    @property
    def is_active(self) -> bool:
        return self._state is State.ACTIVE

    @property
    def refusal(self) -> ErrorCode:
        """Why there is nobody to ask, while it is not active."""
        return _REFUSAL[self._state]

    @property
    def machine(self) -> Machine[C, A, R]:
        """To look at, not to change, and only while active."""
        self._machine.advance(self.partition.high_watermark)
        return self._machine

    def submit(self, command: C) -> DeferredResponse:
        """Executes the command. The result is the coordinator's response to it, which may be complete at once."""
        if self._state is not State.ACTIVE:
            return DeferredResponse.completed(self._kind.refuse(command, self.refusal))
        deferred = DeferredResponse(command)
        token = self._next_token = self._next_token + 1
        self._pending[token] = deferred
        if not self._kind.is_independent(command):
            self._take(lambda now_ms: self._prepare(self._machine.handle(command, token, now_ms)))
        else:
            # It shares a batch with the other independent commands of this turn of the loop, or with those that arrive
            # while the disk is slow.
            if self._gathering is None:
                self._gathering = deque()
                self._due.append(partial(self._handle_together, self._gathering))
                asyncio.get_running_loop().call_soon(self._work_off)
            self._gathering.append((command, token))
        return deferred

    def do(self, work: Callable[[Machine[C, A, R], int], Step[A, R]]) -> None:
        """A step that no client asked for, now or as soon as the log is loaded."""
        if self._state in (State.LOADING, State.ACTIVE):
            self._take(lambda now_ms: self._prepare(work(self._machine, now_ms)))

    async def end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, transaction_version: int
    ) -> None:
        """Writes the marker, and returns when it is committed. Raises KafkaError."""
        if self._state is not State.ACTIVE:
            raise KafkaError(self.refusal)
        done = DeferredResponse()

        def replay(offset: int) -> None:
            self._machine.replay_marker(producer_id, commits=marker.committed, offset=offset)

        def write(_: int) -> Write:
            data = build_end_transaction(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=self._clock.wall_ms()
            )
            return Write([(bytearray(data), replay)], partial(self._complete_when_committed, done), transaction_version)

        self._ending[done] = None
        self._take(write)
        try:
            code: ErrorCode = await done.wait()
        finally:
            del self._ending[done]
        if code is not ErrorCode.none:
            raise KafkaError(code)

    # ---- leadership

    def begin(self) -> None:
        self._machine.advance(self.partition.high_watermark)
        if self.partition.log.log_start_offset == self._appender.end_offset:
            self._activate_when_committed()
        else:
            self._task = asyncio.ensure_future(self._load())

    def close(self) -> None:
        """This broker leads no more, or in another epoch. Whoever waits is told."""
        was_active = self._state is State.ACTIVE
        self._state = State.CLOSED
        if self._task is not None:
            self._task.cancel()
        if self._retry is not None:
            self._retry.cancel()
        self._alarm.cancel()
        self._due.clear()
        self._parked.close()
        if was_active:
            for token, answer in self._machine.unload(self._time.now_ms()).answers:
                self._give(token, answer)
        for token, pending in list(self._pending.items()):
            self._give(token, self._kind.refuse(pending.request, ErrorCode.not_coordinator))
        for done in list(self._ending):
            done.complete(ErrorCode.not_coordinator)

    async def _load(self) -> None:
        name, log, log_dir = self.partition.name, self.partition.log, self.partition.log_dir
        began = self._clock.monotonic()
        try:
            count = await replay_log(
                log,
                self._appender.end_offset,
                self._machine,
                decode=self._kind.decode,
                now_ms=self._time.now_ms,
                executor=self._executor,
            )
        except asyncio.CancelledError:
            raise
        except OSError as error:
            self._fail_to_load(error)
            self._try_again()
            # Where it was read, wherever the partition has moved since.
            self._on_disk_failure(log_dir, error)
        except (KafkaError, CorruptBatch, InvalidRecords, UnreadableRecord, UnservedRecord) as error:
            self._fail_to_load(error)
            if self.partition.log is not log:
                # It has moved to another log dir meanwhile.
                self._try_again()
        except Exception:
            logger.exception(NOT_SERVED, name)
            self._state = State.FAILED
        else:
            seconds = self._clock.monotonic() - began
            logger.info("loaded %d records of %s in epoch %d in %.1f s", count, name, self.leader_epoch, seconds)
            self._activate_when_committed()

    def _fail_to_load(self, error: Exception) -> None:
        self._state = State.FAILED
        logger.error(NOT_SERVED + ": %s", self.partition.name, error)

    def _try_again(self) -> None:
        """Unless the disk is given up, or leadership: this host is closed then."""
        self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._out_of_step, self.partition)

    def _activate_when_committed(self) -> None:
        """A new leader may not know yet that the last of what it has was committed, and told to clients."""

        def activate(committed: DeferredResponse) -> None:
            if self._state is State.LOADING and _code_of(committed) is ErrorCode.none:
                self._activate()

        self.partition.defer_until_committed(self._appender.end_offset, self.leader_epoch).on_complete(activate)

    def _activate(self) -> None:
        self._machine.advance(self.partition.high_watermark)
        try:
            steps = self._machine.loaded(self._time.now_ms())
        except Exception:
            logger.exception(NOT_SERVED, self.partition.name)
            self._state = State.FAILED
            return
        self._state = State.ACTIVE
        # Before what was to be done as soon as it is loaded.
        for step in reversed(steps):
            self._due.appendleft(lambda _, step=step: self._prepare(step))  # type: ignore[misc]
        self._work_off()

    # ---- steps

    def _take(self, due: Callable[[int], Write | None]) -> None:
        self._gathering = None
        self._due.append(due)
        self._work_off()

    def _work_off(self) -> None:
        """Executes what is queued, one after the other, until an append has to wait for the disk."""
        if self._is_stepping or self._state is not State.ACTIVE:
            return
        self._is_stepping = True
        try:
            while self._due and self._state is State.ACTIVE:
                self._machine.advance(self.partition.high_watermark)
                write = self._due.popleft()(self._time.now_ms())
                if write is None:
                    continue
                code = self._appender.append(write)
                if code is None:
                    self._task = asyncio.ensure_future(self._append_exclusively(write))
                    return
                write.then(code)
            if self._state is State.ACTIVE:
                self._alarm.set(self._machine.next_deadline_ms(), self._time.now_ms)
        except Exception:
            logger.exception(OUT_OF_STEP, self.partition.name)
            self._out_of_step(self.partition)
        self._is_stepping = False

    def _handle_together(self, asked: deque[tuple[C, Token]], now_ms: int) -> Write | None:
        """None of them is decided differently for what those before it write."""
        self._gathering = None
        together = Together[A, R](self._writer, self.partition.log.config.max_message_bytes, self._clock.wall_ms())
        while asked:
            step = self._machine.handle(*asked.popleft(), now_ms)
            if not together.takes(step):
                self._due.appendleft(partial(self._handle_together, asked))
                self._due.appendleft(lambda _, step=step: self._prepare(step))  # type: ignore[misc]
                break
        self._settle(together.silent, ErrorCode.none)
        if not together.steps:
            return None
        replay = partial(self._replay_all, together.records, NO_PRODUCER_ID)
        return Write([(together.batch(), replay)], partial(self._settle, together.steps))

    def _prepare(self, step: Step[A, R] | None) -> Write | None:
        if step is None:
            return None
        if not step.records:
            self._settle((step,), ErrorCode.none)
            return None
        try:
            batches = self._writer.batches(
                step.records,
                is_atomic=step.is_atomic,
                producer=step.producer,
                max_bytes=self.partition.log.config.max_message_bytes,
                now_ms=self._clock.wall_ms(),
            )
        except KafkaError as error:
            self._settle((step,), error.code)
            return None
        return Write(
            [(data, partial(self._replay, step, records)) for data, records in batches], partial(self._settle, (step,))
        )

    async def _append_exclusively(self, write: Write) -> None:
        """The disk is slow: nothing is asked of the machine before this is written."""
        try:
            code = await self._appender.append_exclusively(write, lambda: self._state is State.ACTIVE)
            if self._state is State.ACTIVE:
                write.then(code)
        except Exception:
            logger.exception(OUT_OF_STEP, self.partition.name)
            self._out_of_step(self.partition)
        self._is_stepping = False
        self._work_off()

    def _replay(self, step: Step[A, R], records: Sequence[R], first_offset: int) -> None:
        if step.replays:
            self._replay_all(records, NO_PRODUCER_ID if step.producer is None else step.producer.id, first_offset)

    def _replay_all(self, records: Sequence[R], producer_id: int, first_offset: int) -> None:
        now_ms = self._time.now_ms()
        for offset, record in enumerate(records, first_offset):
            self._machine.replay(record, offset, now_ms, producer_id)

    # ---- answers

    def _settle(self, steps: Sequence[Step[A, R]], code: ErrorCode) -> None:
        for step in steps:
            for token, answer in step.answers:
                self._give(token, answer)
        waiting = [step for step in steps if step.answers_when_committed or step.on_written is not None]
        if waiting:
            self._defer_until_committed(code).on_complete(partial(self._complete, waiting))

    def _defer_until_committed(self, code: ErrorCode) -> DeferredResponse:
        """`code` is that of the append."""
        end_offset = self._appender.end_offset
        if code is not ErrorCode.none or self.partition.high_watermark >= end_offset:
            return DeferredResponse.completed(code)
        deferred = self.partition.defer_until_committed(end_offset, self.leader_epoch)
        self._parked.add(deferred)
        return deferred

    def _complete_when_committed(self, done: DeferredResponse, code: ErrorCode) -> None:
        self._defer_until_committed(code).on_complete(lambda committed: done.complete(_code_of(committed)))

    def _complete(self, steps: Sequence[Step[A, R]], committed: DeferredResponse) -> None:
        """What was written together is committed together, or failed together."""
        code = _code_of(committed)
        for step in steps:
            for token, answer in step.answers_when_committed:
                pending = self._pending.pop(token, None)
                if pending is not None:
                    pending.complete(answer if code is ErrorCode.none else self._kind.refuse(pending.request, code))
            written = step.on_written
            if written is not None:
                self._take(lambda now_ms, of=written: self._prepare(self._machine.written(of, code, now_ms)))  # type: ignore[misc]

    def _give(self, token: Token, answer: Any) -> None:
        pending = self._pending.pop(token, None)
        if pending is not None:
            pending.complete(answer)

    # ---- time

    def _wake(self) -> None:
        self._gathering = None
        self._due.append(partial(self._pass_deadline, DEADLINES_IN_A_ROW))
        self._work_off()

    def _pass_deadline(self, in_a_row: int, now_ms: int) -> Write | None:
        step = self._machine.pass_deadline(now_ms)
        if step is not None and in_a_row > 1:
            self._due.appendleft(partial(self._pass_deadline, in_a_row - 1))
        return self._prepare(step)


def _code_of(committed: DeferredResponse) -> ErrorCode:
    """A coordinator's records are committed whatever the ISR has shrunk to by then."""
    code: ErrorCode = committed.result
    return ErrorCode.none if code is ErrorCode.not_enough_replicas_after_append else code
