"""The log cleaner of a broker: lets a worker compact the dirtiest log, and checkpoints its progress.

It owns `cleaner-offset-checkpoint` of every log dir. It starts no threads and no processes, does not sleep and reads no
clock: the caller provides all of them and calls `clean_dirtiest` repeatedly.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from odradek.base.errors import KafkaError, WorkerFailed
from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk, Executor, Message, Pool, Random, Workers, WorkerTask
from odradek.storage.log import names
from odradek.storage.log.checkpoints import CLEANER_CHECKPOINT, MalformedCheckpoint, read_offsets, write_offsets
from odradek.storage.log.compaction import Candidate, LogToClean, dirtiest_first, measure
from odradek.storage.log.compaction_filter import LastWrite, last_writes
from odradek.storage.log.compaction_pass import CleaningStats
from odradek.storage.log.compaction_program import Progress
from odradek.storage.log.compaction_replacement import SegmentReplacer, new_request
from odradek.storage.log.compaction_request import CompactionRequest
from odradek.storage.log.partition_log import PartitionLog

T = TypeVar("T")
_log = logging.getLogger(__name__)

# The number of bytes per turn of a worker, unless the rate limit requires less.
_TURN_BYTES = 16 << 20
_HASH_KEY_BYTES = 16
_SHORTEST_PAUSE_SECONDS = 0.001


class CleanablePartition(Protocol):
    """The parts of a partition that the cleaner uses."""

    log: PartitionLog
    log_dir: str

    @property
    def high_watermark(self) -> int: ...

    async def run_exclusively(self, work: Callable[[], T]) -> T:
        """Runs `work` in a thread while no other job writes the partition."""


# Checkpoints are written in the order of their changes.
CHECKPOINT_LANE: Final = "cleaner checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The broker configs `log.cleaner.*`."""

    dedupe_buffer_bytes: int = 128 << 20
    dedupe_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")


@dataclass(frozen=True, slots=True)
class Cleaned:
    partition: TopicPartition
    first_dirty_offset: int
    end_offset: int
    stats: CleaningStats


class Cleaner:
    def __init__(
        self,
        disk: Disk,
        log_dirs: Iterable[str],
        *,
        executor: Executor,
        threads_of: Callable[[str], Executor],
        workers: Workers,
        random: Random,
        pause: Callable[[float], Awaitable[None]],
        settings: CleanerSettings,
    ) -> None:
        """The cleaner checkpoint is written in `threads_of` its log dir; `pause` waits for some seconds.

        Reads the checkpoints, so it may block."""
        self._disk = disk
        self._executor = executor
        self._threads_of = threads_of
        self._workers = workers
        self._random = random
        self._pause = pause
        self.settings = settings
        # Per log dir, the offset up to which each partition is clean.
        self._clean_offsets = {log_dir: self._read_checkpoint(log_dir) for log_dir in log_dirs}
        # Logs that could not be cleaned are skipped until the next start.
        self.uncleanable: set[TopicPartition] = set()
        self.max_dirty_ratio = 0.0
        # Logs being cleaned: concurrent callers of `clean_dirtiest` clean different logs.
        self._in_work: set[TopicPartition] = set()
        # The new ends of those that were truncated meanwhile.
        self._cut_in_work: dict[TopicPartition, int] = {}

    # ---- checkpoints

    def clean_offset(self, log_dir: str, partition: TopicPartition) -> int | None:
        return self._clean_offsets.get(log_dir, {}).get(partition)

    async def forget(self, log_dir: str, partition: TopicPartition) -> None:
        """A partition was deleted."""
        self.uncleanable.discard(partition)
        if self._clean_offsets.get(log_dir, {}).pop(partition, None) is not None:
            await self._write_checkpoint(log_dir)

    async def on_truncation(self, log_dir: str, partition: TopicPartition, offset: int) -> None:
        """A log was truncated: everything from `offset` on is dirty again."""
        if partition in self._in_work:
            self._cut_in_work[partition] = min(offset, self._cut_in_work.get(partition, offset))
        if (self.clean_offset(log_dir, partition) or 0) > offset:
            await self._checkpoint(log_dir, partition, offset)

    def on_log_dir_failure(self, log_dir: str) -> None:
        self._clean_offsets.pop(log_dir, None)

    def _read_checkpoint(self, log_dir: str) -> dict[TopicPartition, int]:
        path = f"{log_dir}/{CLEANER_CHECKPOINT}"
        try:
            return read_offsets(self._disk, path)
        except MalformedCheckpoint as error:
            # Everything counts as dirty then, which costs time but loses no data.
            _log.warning("Ignoring %s: %s", path, error)
            return {}

    async def _checkpoint(self, log_dir: str, partition: TopicPartition, offset: int) -> None:
        if log_dir in self._clean_offsets:
            self._clean_offsets[log_dir][partition] = offset
            await self._write_checkpoint(log_dir)

    async def _write_checkpoint(self, log_dir: str) -> None:
        offsets = dict(self._clean_offsets[log_dir])
        await self._threads_of(log_dir).run(
            lambda: write_offsets(self._disk, f"{log_dir}/{CLEANER_CHECKPOINT}", offsets), lane=CHECKPOINT_LANE
        )

    # ---- cleaning

    async def clean_dirtiest(self, partitions: Iterable[CleanablePartition], now_ms: int) -> Cleaned | None:
        """Compacts one log, if one is due. The `filename` of an OSError is inside the log dir that failed."""
        by_name = {one.log.topic_partition: one for one in partitions if self._may_clean(one)}
        # Estimates first, without pausing writers: they ignore open transactions.
        candidates = [self._candidate(one, one.high_watermark) for one in by_name.values()]
        estimates = await self._executor.run(lambda: self._measure_all(candidates, now_ms), pool=Pool.COMPACTION)
        self.max_dirty_ratio = max((one.dirty_ratio for one in estimates), default=0.0)
        for estimate in estimates:
            if estimate.checkpoint_is_wrong:
                await self._correct_checkpoint(by_name[estimate.candidate.partition], estimate.first_dirty_offset)
        for estimate in dirtiest_first(estimates):
            name = estimate.candidate.partition
            if name in self._in_work:
                continue
            self._in_work.add(name)
            try:
                with _named_by(estimate.candidate.log.directory):
                    cleaned = await self._clean_if_due(by_name[name], now_ms)
            except FileNotFoundError as error:
                if not _was_deleted_meanwhile(estimate.candidate.log, error):
                    raise
                cleaned = None
            except WorkerFailed as error:
                _log.error("Cannot compact %s now, trying again later: %s", name, error)
                cleaned = None
            finally:
                self._in_work.discard(name)
                self._cut_in_work.pop(name, None)
            if cleaned is not None:
                return cleaned
        return None

    def _measure_all(self, candidates: list[Candidate], now_ms: int) -> list[LogToClean]:
        measured = []
        for candidate in candidates:
            try:
                with _named_by(candidate.log.directory):
                    measured.append(measure(candidate, now_ms))
            except FileNotFoundError as error:
                if not _was_deleted_meanwhile(candidate.log, error):
                    raise
            except KafkaError as error:
                self._give_up(candidate.partition, error)
        return measured

    def _give_up(self, partition: TopicPartition, error: KafkaError) -> None:
        """Corrupt data must stay unchanged for analysis."""
        _log.error("Cannot compact %s, skipping it until the next start: %s", partition, error)
        self.uncleanable.add(partition)

    async def _clean_if_due(self, partition: CleanablePartition, now_ms: int) -> Cleaned | None:
        to_clean, producers = await partition.run_exclusively(partial(self._capture, partition, now_ms))
        return await self._clean(partition, to_clean, producers, now_ms) if to_clean.is_due else None

    async def _correct_checkpoint(self, partition: CleanablePartition, first_dirty_offset: int) -> None:
        """Corrects the checkpoint before the log grows to its offset and dirty data would count as clean."""
        name = partition.log.topic_partition
        if not partition.log.config.delete:
            _log.warning("Cleaning %s from its start: its checkpoint is outside the log", name)
        await self._checkpoint(partition.log_dir, name, first_dirty_offset)

    def _candidate(self, partition: CleanablePartition, stable_offset: int) -> Candidate:
        log = partition.log
        clean_offset = self.clean_offset(partition.log_dir, log.topic_partition)
        return Candidate.of(log, stable_offset=stable_offset, clean_offset=clean_offset)

    def _capture(self, partition: CleanablePartition, now_ms: int) -> tuple[LogToClean, dict[int, LastWrite]]:
        stable_offset = partition.log.last_stable_offset(partition.high_watermark)
        return measure(self._candidate(partition, stable_offset), now_ms), last_writes(partition.log.producers)

    def _may_clean(self, partition: CleanablePartition) -> bool:
        return (
            partition.log.config.compact
            and partition.log.topic_partition not in self.uncleanable
            and partition.log_dir in self._clean_offsets
        )

    async def _clean(
        self, partition: CleanablePartition, chosen: LogToClean, producers: dict[int, LastWrite], now_ms: int
    ) -> Cleaned | None:
        name = chosen.candidate.partition
        hash_key = self._random.randbytes(_HASH_KEY_BYTES)
        request, message = await self._executor.run(
            lambda: self._prepare(chosen, producers, hash_key, now_ms), pool=Pool.COMPACTION
        )
        replacer = SegmentReplacer(self._disk, chosen, request)
        task = self._workers.start(Pool.COMPACTION, message, input_bytes=request.input_bytes)
        try:
            done = await self._take_turns(task, partition, replacer)
        except (FileNotFoundError, KafkaError) as error:
            if await partition.run_exclusively(replacer.log_has_changed):
                return None
            if not isinstance(error, KafkaError):
                raise
            self._give_up(name, error)
            return None
        finally:
            task.close()
        if done is None or done.end_offset is None:
            return None
        end_offset = min(done.end_offset, self._cut_in_work.get(name, done.end_offset))
        await self._checkpoint(partition.log_dir, name, end_offset)
        return Cleaned(name, chosen.first_dirty_offset, done.end_offset, done.stats)

    def _prepare(
        self, chosen: LogToClean, producers: dict[int, LastWrite], hash_key: bytes, now_ms: int
    ) -> tuple[CompactionRequest, Message]:
        settings = self.settings
        request = new_request(
            chosen,
            producers,
            now_ms=now_ms,
            turn_bytes=int(min(_TURN_BYTES, settings.io_max_bytes_per_second)),
            hash_key=hash_key,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            dedupe_buffer_load_factor=settings.dedupe_buffer_load_factor,
        )
        return request, request.to_message()

    async def _take_turns(
        self, task: WorkerTask, partition: CleanablePartition, replacer: SegmentReplacer
    ) -> Progress | None:
        """The worker's last message; None if the log changed during the pass, or must not be compacted any more."""
        while (message := await task.next()) is not None:
            progress = Progress.from_message(message)
            if progress.end_offset is not None:
                return progress
            if progress.finished is not None:
                await self._checkpoint_first_pass(partition)
                if not await partition.run_exclusively(partial(replacer.replace, progress.finished)):
                    return None
            if not self._may_clean(partition):
                return None
            await self._keep_to_rate(progress.io_bytes)
        return None

    async def _keep_to_rate(self, io_bytes: int) -> None:
        seconds = io_bytes / self.settings.io_max_bytes_per_second
        if seconds >= _SHORTEST_PAUSE_SECONDS:
            await self._pause(seconds)

    async def _checkpoint_first_pass(self, partition: CleanablePartition) -> None:
        """Before compaction leaves the first offset gap: recovery recognizes a compacted log by its checkpoint."""
        name = partition.log.topic_partition
        if self.clean_offset(partition.log_dir, name) is None:
            await self._checkpoint(partition.log_dir, name, partition.log.log_start_offset)


def _was_deleted_meanwhile(log: PartitionLog, missing: FileNotFoundError) -> bool:
    """Whether the partition was deleted, or retention removed the segment files: then the disk has not failed."""
    return log.is_deleted or str(missing.filename).endswith(names.DELETED_SUFFIX)


@contextmanager
def _named_by(directory: str) -> Iterator[None]:
    """Adds the directory to an OSError that has no file name."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = directory
        raise
