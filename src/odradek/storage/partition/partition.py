"""One replica of a partition on this broker, and the only writer of its log.

Appends run on the event loop while the disk is fast and no file has to be opened or created, otherwise one after the
other in the log dir's thread. Consumers read up to the high watermark, and waiting fetches are notified when it
advances. `core/replication` decides how far it advances if the partition has followers; a partition with a single
replica has no replication state.
It must not know requests, sockets or other partitions.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH, NO_LEADER, TopicPartition
from odradek.base.ports import Clock
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.follower import FollowerState
from odradek.core.replication.high_watermark import UNKNOWN_BYTES, HighWatermark
from odradek.core.replication.leader import LeaderState
from odradek.instruments.traffic import Traffic
from odradek.records.batch import BatchHeader
from odradek.storage.log.log_dir_health import SLOW_SECONDS
from odradek.storage.log.partition_log import Appended, PartitionLog
from odradek.storage.log.producer_state import Origin
from odradek.storage.log.verification import Verification
from odradek.storage.partition.delayed_delete_records import DelayedDeleteRecords
from odradek.storage.partition.group_sync import GroupSync
from odradek.storage.partition.log_dir_threads import WRITER_LANE, LogDirThreads
from odradek.storage.partition.rejected_batches import RETRIABLE_ERRORS, RejectedBatches
from odradek.storage.partition.write_timer import WriteTimer

T = TypeVar("T")


# Appends that are queued are handed to the thread together, up to this number.
APPENDS_PER_JOB_MAX: Final = 64


class _Job(NamedTuple):
    work: Callable[[], Any]
    then: Callable[[Any], None] | None
    done: "asyncio.Future[Any]"
    is_append: bool
    """It may run before the results of the appends before it are known on the event loop."""


class FreshBatch(NamedTuple):
    """A data batch that was just appended; never a transaction marker."""

    first_offset: int
    end_offset: int
    data: memoryview


class FollowerFetch(NamedTuple):
    """The follower that fetches, and its incarnation."""

    replica_id: int
    broker_epoch: int


class Watcher(Protocol):
    def on_partition_change(self, partition: "Partition", added_bytes: int) -> None: ...


class Partition:
    def __init__(
        self,
        name: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        *,
        threads: LogDirThreads,
        clock: Clock,
        on_disk_failure: Callable[[str, OSError], None],
        high_watermark: int | None = None,
        rejected_before_creation: RejectedBatches | None = None,
    ) -> None:
        """`threads` are those of the log dir. `high_watermark` is the checkpointed one; None means the end of the log,
        for a partition with one replica."""
        self.name: Final = name
        self.topic_id: Final = topic_id
        self.log = log
        self.log_dir = threads.path
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.is_leader = False
        # Set when the log dir failed or the partition was deleted: the error of every later request.
        self.unavailable: ErrorCode | None = None
        end_offset = log.log_end_offset
        # The only copy of this replica's high watermark: the state of the current role advances it.
        self.shared_high_watermark: Final = HighWatermark(
            end_offset if high_watermark is None else min(max(high_watermark, log.log_start_offset), end_offset),
            self._on_high_watermark_advance,
        )
        # Set while this broker leads and the partition has followers.
        self.leader_state: LeaderState | None = None
        # Set while this broker follows another.
        self.follower_state: FollowerState | None = None
        # Waiting consumer fetches in order of arrival: the first is notified first.
        self.watchers: Final[dict[Watcher, None]] = {}
        # Waiting follower fetches: they wait for the end of the log, committed or not.
        self.end_watchers: Final[dict[Watcher, None]] = {}
        self._uncommitted: Final[list[tuple[int, int, DeferredResponse]]] = []
        self._uncommitted_count = 0
        self._delayed_deletions: Final = DelayedDeleteRecords()
        # Created with the first rejected batch: most partitions never reject one.
        self._rejected_batches = rejected_before_creation
        # Grows with every notification: a watcher that saw a lower revision has missed one.
        self.revision = 0
        # Set during a notification: a watcher that waits for exactly this batch need not read the file.
        self.fresh: FreshBatch | None = None
        self.threads = threads
        self._health = threads.health
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure
        self._sync: Final = GroupSync(threads, self._flush, lambda: self.log.log_end_offset, self._on_synced)
        self._jobs: Final[deque[_Job]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._busy = False
        self._background: Final[set[asyncio.Task[None]]] = set()
        self._last_sync_ms = clock.wall_ms()
        self.traffic: Final = Traffic()
        # `traffic` counts the messages below this offset that this broker appended as leader.
        self._counted_to = end_offset

    # roles

    def become_leader(self, leader_id: int, leader_epoch: int, leader_state: LeaderState | None = None) -> None:
        """Starts a new leader epoch. `leader_state` is None if the partition has a single replica."""
        self._assert_epoch_grows(leader_epoch)
        self.count_messages()
        self._counted_to = self.log.log_end_offset
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self.follower_state = None
        # Checkpointed with the first flush: until then recovery finds the epoch in the batches themselves.
        self.log.epochs.assign_unwritten(leader_epoch, self.log.log_end_offset)
        self.leader_state = leader_state
        if leader_state is None:
            # The only replica: everything that it has written is committed.
            self.shared_high_watermark.advance_to(self.log.log_end_offset)
        else:
            assert leader_state.shared_high_watermark is self.shared_high_watermark, "two owners of one high watermark"
            leader_state.advance_high_watermark(self._clock.monotonic())
            if leader_state.log_end_offset < self.log.log_end_offset:
                self._sync_in_background(self.log.log_end_offset)

    def become_follower(self, leader_id: int, leader_epoch: int, follower_state: FollowerState) -> None:
        assert follower_state.shared_high_watermark is self.shared_high_watermark, "two owners of one high watermark"
        self._leave_leadership(leader_id, leader_epoch, follower_state)

    def become_leaderless(self, leader_epoch: int) -> None:
        self._leave_leadership(NO_LEADER, leader_epoch, None)

    def count_messages(self) -> None:
        """Updates `traffic`: a leader's log grows only by what is produced to it."""
        if self.is_leader:
            end_offset = self.log.log_end_offset
            self.traffic.messages_in += end_offset - self._counted_to
            self._counted_to = end_offset

    def _assert_epoch_grows(self, leader_epoch: int) -> None:
        assert leader_epoch >= self.leader_epoch, (
            f"{self.name}: leader epoch decreased from {self.leader_epoch} to {leader_epoch}"
        )

    def _leave_leadership(self, leader_id: int, leader_epoch: int, follower_state: FollowerState | None) -> None:
        self._assert_epoch_grows(leader_epoch)
        self.count_messages()
        was_leader = self.is_leader
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.is_leader = False
        self.leader_state = None
        # Before watchers run: one that finds a disk failure clears both states.
        self.follower_state = follower_state
        # Consumers that fetch from a follower are notified of a new epoch too.
        self.notify_watchers(UNKNOWN_BYTES)
        if was_leader:
            self._fail_uncommitted(ErrorCode.not_leader_or_follower)
            self._delayed_deletions.fail(KafkaError(ErrorCode.not_leader_or_follower))
            self._notify_end_watchers(UNKNOWN_BYTES)

    def check_leader(self, expected_epoch: int = NO_EPOCH) -> None:
        """Raises KafkaError unless this broker leads, in the epoch the request names."""
        self.check_replica(expected_epoch)
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)

    def check_gap(self, batch: BatchHeader, now_ms: int) -> None:
        """Raises KafkaError if an earlier batch of this idempotent producer was rejected and is still missing."""
        if self._rejected_batches is not None:
            known = self.log.producers.producers.get(batch.producer_id)
            code = self._rejected_batches.reason_for_gap(batch, known, now_ms)
            if code is not None:
                raise KafkaError(code)

    def on_rejected_batch(self, batch: BatchHeader, code: ErrorCode) -> ErrorCode:
        """Returns the error code for the producer of a batch that was not appended for this reason."""
        now_ms = self._clock.wall_ms()
        if code in RETRIABLE_ERRORS:
            if self._rejected_batches is None:
                self._rejected_batches = RejectedBatches()
            self._rejected_batches.note(batch, code, now_ms)
        elif code is ErrorCode.out_of_order_sequence_number and self._rejected_batches is not None:
            known = self.log.producers.producers.get(batch.producer_id)
            return self._rejected_batches.reason_for_gap(batch, known, now_ms) or code
        return code

    def check_replica(self, expected_epoch: int = NO_EPOCH) -> None:
        """Like `check_leader`, for requests that a follower in that epoch may serve too."""
        if self.unavailable is not None:
            raise KafkaError(self.unavailable)
        if self._health.is_stalled:
            # A request that waited for the disk would hold its memory, and delay its results from other log dirs.
            raise KafkaError(ErrorCode.kafka_storage_error)
        if expected_epoch != NO_EPOCH:
            if expected_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.fenced_leader_epoch)
            if expected_epoch > self.leader_epoch:
                raise KafkaError(ErrorCode.unknown_leader_epoch)

    # writing

    def can_append_now(self, data: memoryview, batches: list[BatchHeader], now_ms: int) -> bool:
        """Whether `append` may be called from the event loop; else `append_exclusively`."""
        return (
            not self._busy
            and not self._health.is_slow
            and self.log.can_append_quickly(len(data), batches, data, now_ms, leader_epoch=self.leader_epoch)
        )

    def append(
        self,
        data: memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
        *,
        has_room: bool = False,
    ) -> Appended:
        """Appends from the event loop. `has_room`: `can_append_now` has just allowed it.

        The caller waits for `wait_for_sync` before it acknowledges."""
        health = self._health
        health.is_writing = True
        timer = WriteTimer(self._clock, self.log)
        try:
            appended = self.log.append_as_leader(
                data,
                batches,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                transaction_version=transaction_version,
                verification=verification,
                verifies=True,
                has_room=has_room,
            )
        finally:
            health.is_writing = False
        seconds, now = timer.seconds(), self._clock.monotonic()
        if seconds >= SLOW_SECONDS:
            health.on_write(seconds, now)
        self._publish(appended, data, batches, now)
        return appended

    async def append_exclusively(
        self,
        data: memoryview,
        batches: list[BatchHeader],
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> Appended:
        epoch = self.leader_epoch

        def append_timed() -> tuple[Appended, float]:
            # Roles change between jobs, never during one: the epoch may have ended while this job was queued.
            self.check_leader()
            if self.leader_epoch != epoch:
                raise KafkaError(ErrorCode.not_leader_or_follower)
            timer = WriteTimer(self._clock, self.log)
            appended = self.log.append_as_leader(
                data,
                batches,
                leader_epoch=epoch,
                now_ms=self._clock.wall_ms(),
                origin=origin,
                transaction_version=transaction_version,
                verification=verification,
                verifies=True,
            )
            return appended, timer.seconds()

        def publish(result: tuple[Appended, float]) -> None:
            appended, seconds = result
            now = self._clock.monotonic()
            self._health.on_write(seconds, now)
            self._publish(appended, data, batches, now)

        return (await self._enqueue(append_timed, publish, is_append=True))[0]

    @property
    def is_busy(self) -> bool:
        """Whether jobs are running or queued: a role change then has to queue too, by `run_exclusively`."""
        return self._busy

    async def run_exclusively(self, work: Callable[[], T], then: Callable[[T], None] | None = None) -> T:
        """Runs `work` in the log dir's thread while no other job writes this partition, then `then` on the loop.

        Both happen even if the caller is cancelled meanwhile: a client that hangs up leaves no append half published.
        """
        return await self._enqueue(work, then, is_append=False)

    async def _enqueue(self, work: Callable[[], T], then: Callable[[T], None] | None, *, is_append: bool) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(work, then, done, is_append))
        if not self._busy:
            self._busy = True
            self._worker = start_task(f"writer of {self.name}", self._work_off())
        return await done

    async def _work_off(self) -> None:
        while self._jobs:
            jobs = [self._jobs.popleft()]
            while jobs[0].is_append and self._jobs and self._jobs[0].is_append and len(jobs) < APPENDS_PER_JOB_MAX:
                jobs.append(self._jobs.popleft())
            try:
                results = await self.threads.run(partial(_run_all, jobs), lane=WRITER_LANE)
            except Exception as error:  # noqa: BLE001 - passed to the callers
                results = [error] * len(jobs)
            # The others see the partition as a disk failure leaves it.
            self._jobs.extendleft(reversed(jobs[len(results) :]))
            for job, result in zip(jobs, results, strict=False):
                _complete(job, result)
        self._busy = False

    def _publish(self, appended: Appended, data: memoryview, batches: list[BatchHeader], now: float) -> None:
        traffic = self.traffic
        traffic.appends += 1
        if appended.duplicate:
            return
        end_offset, size = appended.last_offset + 1, len(data)
        traffic.bytes_in += size
        if appended.rolled_at >= 0:
            self._sync_in_background(end_offset)
        if self.log.config.flush_messages > 1:
            if self.leader_state is not None:
                self._count_own(end_offset, now, size)
            # A broker that stops no longer leads when a slow append completes: then nothing is known to be committed.
            elif self.is_leader:
                if self.watchers and len(batches) == 1 and not batches[0].is_control:
                    self.fresh = FreshBatch(appended.first_offset, end_offset, data)
                self.shared_high_watermark.advance_to(end_offset, size)
                self.fresh = None
        if self.end_watchers:
            self._notify_end_watchers(size)

    def _count_own(self, end_offset: int, now: float, added_bytes: int) -> None:
        if self.leader_state is not None:
            self.leader_state.on_append(end_offset, now, added_bytes)

    # replication

    def on_follower_fetch(self, fetch: FollowerFetch, fetch_offset: int, log_start_offset: int) -> None:
        """A follower has everything before this offset. Raises KafkaError if the broker is not a follower."""
        replication = self.leader_state
        if replication is None:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        now = self._clock.monotonic()
        replication.on_fetch(fetch.replica_id, fetch.broker_epoch, fetch_offset, log_start_offset, now)
        self.complete_deletions()

    def check_follower(self, fetch: FollowerFetch) -> None:
        """Raises KafkaError if the broker is not, or no longer, a follower."""
        # Threads call this too, and the role may change meanwhile.
        replication = self.leader_state
        if replication is None:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        replication.check_follower(*fetch)

    async def replicate(self, leader_epoch: int, data: bytes, batches: list[BatchHeader]) -> bool:
        """Appends batches fetched from the leader of this epoch. False: this broker no longer follows in this epoch."""

        def append() -> tuple[Appended, float] | None:
            if not self._follows_in(leader_epoch):
                return None
            timer = WriteTimer(self._clock, self.log)
            appended = self.log.append_as_follower(data, batches, now_ms=self._clock.wall_ms())
            return appended, timer.seconds()

        def publish(result: tuple[Appended, float] | None) -> None:
            if result is None:
                return
            appended, seconds = result
            self.traffic.replication_bytes_in += len(data)
            self._health.on_write(seconds, self._clock.monotonic())
            if appended.rolled_at >= 0:
                self._sync_in_background(appended.last_offset + 1)

        now_ms = self._clock.wall_ms()
        is_slow = self._busy or self._health.is_slow
        if not is_slow and self.log.can_append_quickly(len(data), batches, data, now_ms, leader_epoch=None):
            self._health.is_writing = True
            try:
                result = append()
            finally:
                self._health.is_writing = False
            publish(result)
        else:
            result = await self.run_exclusively(append, publish)
        return result is not None

    async def truncate(self, leader_epoch: int, offset: int, *, fully: bool) -> bool:
        """Truncates the log to the offset, or `fully` restarts it there. False as in `replicate`."""

        def truncate() -> bool:
            if not self._follows_in(leader_epoch):
                return False
            assert not self.is_leader, f"{self.name}: a leader never truncates its log"
            now_ms = self._clock.wall_ms()
            if fully:
                self.log.truncate_fully_to(offset, now_ms)
            else:
                self.log.truncate_to(offset, now_ms)
            return True

        def publish(is_truncated: bool) -> None:
            if is_truncated:
                self._sync.on_truncation(offset)
                self.shared_high_watermark.on_truncation(self.log.log_start_offset, self.log.log_end_offset)

        return await self.run_exclusively(truncate, publish)

    def _follows_in(self, leader_epoch: int) -> bool:
        return (
            self.follower_state is not None
            and self.follower_state.leader_epoch == leader_epoch
            and self.unavailable is None
        )

    def defer_until_committed(self, end_offset: int, leader_epoch: int) -> DeferredResponse:
        """Completes once everything below `end_offset` that was appended in this epoch is committed, maybe at once.

        The result is the error code for a producer with acks=all: the ISR may have shrunk meanwhile, or this broker may
        no longer lead, or lead again in another epoch, in which case the appended records may have been truncated.
        """
        if self.unavailable is not None:
            return DeferredResponse.from_result(self.unavailable)
        if not self.is_leader or self.leader_epoch != leader_epoch:
            return DeferredResponse.from_result(ErrorCode.not_leader_or_follower)
        replication = self.leader_state
        if replication is not None:
            code = replication.acks_all_result(end_offset)
        else:
            # A single replica commits as soon as it is written, or synced if the topic's config requires that.
            code = ErrorCode.none if self.high_watermark >= end_offset else None
        if code is not None:
            return DeferredResponse.from_result(code)
        deferred = DeferredResponse()
        self._uncommitted_count += 1
        heappush(self._uncommitted, (end_offset, self._uncommitted_count, deferred))
        return deferred

    async def wait_for_commit(self, end_offset: int, leader_epoch: int) -> ErrorCode:
        code: ErrorCode = await self.defer_until_committed(end_offset, leader_epoch).wait()
        return code

    def _acknowledge_committed(self) -> None:
        waiting, replication = self._uncommitted, self.leader_state
        while waiting and waiting[0][0] <= self.high_watermark:
            end_offset, _, deferred = heappop(waiting)
            code = None if replication is None else replication.acks_all_result(end_offset)
            deferred.complete(ErrorCode.none if code is None else code)

    def _fail_uncommitted(self, code: ErrorCode) -> None:
        while self._uncommitted:
            _, _, deferred = heappop(self._uncommitted)
            deferred.complete(code)

    @property
    def pending_commits(self) -> int:
        """The number of appends whose commit is pending."""
        return len(self._uncommitted)

    # deleting

    @property
    def low_watermark(self) -> int:
        """Below it every live replica has deleted its records."""
        start_offset = self.log.log_start_offset
        return start_offset if self.leader_state is None else self.leader_state.low_watermark(start_offset)

    async def wait_for_deletion(self, offset: int) -> int:
        """Waits until the low watermark has reached the offset, and returns it. Raises KafkaError if this broker stops
        leading."""
        self.check_leader()
        low_watermark = self.low_watermark
        return low_watermark if low_watermark >= offset else await self._delayed_deletions.wait_for(offset)

    def complete_deletions(self) -> None:
        """Completes pending DeleteRecords after a follower has fetched or was fenced."""
        if self._delayed_deletions:
            self._delayed_deletions.on_low_watermark(self.low_watermark)

    # syncing

    @property
    def counted_end(self) -> int:
        """The end of this log for the high watermark: the written end, or the synced end if `flush.messages` is 1."""
        return self.log.log_end_offset if self.log.config.flush_messages > 1 else self.log.recovery_point

    def needs_sync(self) -> bool:
        """Whether a sync is required before the appended records are acknowledged."""
        return self.log.log_end_offset - self.log.recovery_point >= self.log.config.flush_messages

    def sync_is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms` has passed and there are unsynced records."""
        return (
            self.log.log_end_offset > self.log.recovery_point
            and now_ms - self._last_sync_ms >= self.log.config.flush_ms
        )

    def _sync_in_background(self, end_offset: int) -> None:
        """Syncs a closed segment once, so that recovery does not have to read it."""

        async def sync() -> None:
            try:
                await self._sync.wait_for(end_offset)
            except OSError as error:
                self._on_disk_failure(self.log_dir, error)

        task = start_task(f"sync of {self.name}", sync())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def wait_for_sync(self, end_offset: int) -> None:
        """Waits until everything below `end_offset` is synced."""
        await self._sync.wait_for(end_offset)

    def sync_if_needed(self) -> None:
        """Starts the sync that a commit waits for where the topic's config requires one, and does not wait for it."""
        if self.needs_sync():
            self._sync_in_background(self.log.log_end_offset)

    async def flush(self) -> None:
        await self._sync.wait_for(self.log.log_end_offset)

    def _flush(self, end_offset: int) -> None:
        log = self.log
        try:
            log.flush(end_offset)
        except OSError as error:
            # The replica moved to another log dir meanwhile, where everything is synced already, or it was deleted.
            is_deleted = self.unavailable is not None and isinstance(error, FileNotFoundError)
            if log is self.log and not is_deleted:
                raise

    def _on_synced(self, end_offset: int) -> None:
        self._last_sync_ms = self._clock.wall_ms()
        # With flush.messages=1 a record becomes readable only once it is synced.
        if not self.is_leader:
            return
        replication = self.leader_state
        if replication is None:
            self.shared_high_watermark.advance_to(end_offset)
        elif end_offset > replication.log_end_offset:
            # Even if flush.messages has changed since: these records were not counted when they were written.
            self._count_own(end_offset, self._clock.monotonic(), UNKNOWN_BYTES)

    async def wait_for_idle(self) -> None:
        """Returns once no write and no sync is running. Call it before closing the log."""
        while True:
            tasks = (self._worker, self._sync.running, *self._background)
            unfinished = [task for task in tasks if task is not None and not task.done()]
            if not unfinished:
                return
            await asyncio.wait(unfinished)

    def update_config(self, config: TopicConfig) -> None:
        self.log.update_config(config)

    def relocate(self, log: PartitionLog, threads: LogDirThreads) -> None:
        """Continues with an equal log in another log dir. Call it only within `run_exclusively`."""
        assert log.log_end_offset == self.log.log_end_offset, (
            f"{self.name}: the log in {threads.path} ends at {log.log_end_offset}, not at {self.log.log_end_offset}"
        )
        self.log = log
        self.log_dir = threads.path
        self.threads = threads
        self._health = threads.health
        self._sync.threads = threads

    # reading

    @property
    def high_watermark(self) -> int:
        return self.shared_high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    def readable_end(self, *, committed_only: bool) -> int:
        return self.last_stable_offset if committed_only else self.high_watermark

    def _on_high_watermark_advance(self, added_bytes: int) -> None:
        """The only place that wakes waiting fetches and completes acks=all requests."""
        log = self.log
        assert log.log_start_offset <= self.shared_high_watermark.offset <= log.log_end_offset, (
            f"{self.name}: high watermark {self.high_watermark} is outside the log "
            f"{log.log_start_offset} to {log.log_end_offset}"
        )
        self.notify_watchers(added_bytes)
        if self._uncommitted:
            self._acknowledge_committed()

    def notify_watchers(self, added_bytes: int) -> None:
        self.revision += 1
        if self.watchers:
            for watcher in list(self.watchers):
                watcher.on_partition_change(self, added_bytes)

    def _notify_end_watchers(self, added_bytes: int) -> None:
        self.revision += 1
        for watcher in list(self.end_watchers):
            watcher.on_partition_change(self, added_bytes)

    def withdraw(self, reason: ErrorCode) -> None:
        """Fails every later request with `reason`: the partition is deleted or its disk failed."""
        self.count_messages()
        self.unavailable = reason
        self.is_leader = False
        self.leader_state = None
        self.follower_state = None
        self._fail_uncommitted(reason)
        self._delayed_deletions.fail(KafkaError(reason))
        self.notify_watchers(UNKNOWN_BYTES)
        self._notify_end_watchers(UNKNOWN_BYTES)


def _run_all(jobs: list[_Job]) -> list[Any]:
    """Returns the results and errors, up to the first disk failure."""
    results: list[Any] = []
    for job in jobs:
        try:
            results.append(job.work())
        except OSError as error:
            results.append(error)
            break
        except Exception as error:  # noqa: BLE001 - passed to the caller
            results.append(error)
    return results


def _complete(job: _Job, result: Any) -> None:
    if not isinstance(result, Exception) and job.then is not None:
        try:
            job.then(result)
        except Exception as error:  # noqa: BLE001 - passed to the caller
            result = error
    if job.done.done():
        return
    if isinstance(result, Exception):
        job.done.set_exception(result)
    else:
        job.done.set_result(result)
