"""The log cleaner of a broker: compacts the dirtiest log step by step in a thread, and checkpoints its progress.

It owns `cleaner-offset-checkpoint` of every log dir. It starts no threads, does not sleep and reads no clock: the
caller provides all three and calls `clean_dirtiest` repeatedly.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk, Executor, Pool, Random
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk
from odradek.storage.log import names
from odradek.storage.log.checkpoints import CLEANER_CHECKPOINT, MalformedCheckpoint, read_offsets, write_offsets
from odradek.storage.log.compaction import Candidate, LogToClean, dirtiest_first, measure
from odradek.storage.log.compaction_filter import LastWrite, last_writes
from odradek.storage.log.compaction_map import new_offset_map
from odradek.storage.log.compaction_pass import CleaningStats, CompactionPass, Step
from odradek.storage.log.partition_log import PartitionLog

T = TypeVar("T")
_log = logging.getLogger(__name__)

# Above this size loading the compiler pays off; below, it would need more memory than the log.
_WORTH_COMPILING_BYTES = 4 << 20
# The number of bytes per turn in a thread, unless the rate limit requires less.
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
        random: Random,
        pause: Callable[[float], Awaitable[None]],
        settings: CleanerSettings,
    ) -> None:
        """`pause` waits for some seconds. Reads the checkpoints, so it may block."""
        self._disk = disk
        self._executor = executor
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
        await self._executor.run(
            lambda: write_offsets(self._disk, f"{log_dir}/{CLEANER_CHECKPOINT}", offsets), lane=log_dir
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
        try:
            cleaning = await self._executor.run(
                lambda: self._prepare(chosen, producers, hash_key, now_ms), pool=Pool.COMPACTION
            )
            if not await self._take_steps(cleaning, partition, now_ms):
                return None
        except KafkaError as error:
            self._give_up(name, error)
            return None
        end_offset = min(cleaning.end_offset, self._cut_in_work.get(name, cleaning.end_offset))
        await self._checkpoint(partition.log_dir, name, end_offset)
        return Cleaned(name, chosen.first_dirty_offset, cleaning.end_offset, cleaning.stats)

    def _prepare(
        self, chosen: LogToClean, producers: dict[int, LastWrite], hash_key: bytes, now_ms: int
    ) -> CompactionPass:
        walk = _walk_for(chosen.clean_bytes + chosen.cleanable_bytes)
        offset_map = new_offset_map(
            walk,
            memory_bytes=self.settings.dedupe_buffer_bytes,
            load_factor=self.settings.dedupe_buffer_load_factor,
            offset_span=chosen.first_uncleanable_offset - chosen.first_dirty_offset,
            hash_key=hash_key,
        )
        return CompactionPass(self._disk, chosen, producers, walk, offset_map, now_ms=now_ms)

    async def _take_steps(self, cleaning: CompactionPass, partition: CleanablePartition, now_ms: int) -> bool:
        """False if the log changed during the pass, or must not be compacted any more."""
        turns = _Turns(cleaning.steps())
        try:
            while True:
                rate = self.settings.io_max_bytes_per_second
                done_bytes, step = await self._executor.run(
                    partial(turns.take, int(min(_TURN_BYTES, rate))), pool=Pool.COMPACTION
                )
                if step is None:
                    return True
                if step.replacement is not None:
                    await self._checkpoint_first_pass(partition)
                    if not await partition.run_exclusively(partial(step.replacement.apply, partition.log, now_ms)):
                        return False
                if not self._may_clean(partition):
                    return False
                if done_bytes / rate >= _SHORTEST_PAUSE_SECONDS:
                    await self._pause(done_bytes / rate)
        finally:
            turns.stop()

    async def _checkpoint_first_pass(self, partition: CleanablePartition) -> None:
        """Before compaction leaves the first offset gap: recovery recognizes a compacted log by its checkpoint."""
        name = partition.log.topic_partition
        if self.clean_offset(partition.log_dir, name) is None:
            await self._checkpoint(partition.log_dir, name, partition.log.log_start_offset)


class _Turns:
    """Runs a pass in turns. If the task that waits for a turn is cancelled, the thread ends the pass itself."""

    def __init__(self, steps: Generator[Step, None, None]) -> None:
        self._steps = steps
        self._is_running = False
        self._is_stopped = False

    def take(self, turn_bytes: int) -> tuple[int, Step | None]:
        """Runs until that many bytes are processed, a segment is finished, or the pass ends (None)."""
        self._is_running = True
        done_bytes = 0
        try:
            for step in self._steps:
                done_bytes += step.io_bytes
                if step.replacement is not None or done_bytes >= turn_bytes or self._is_stopped:
                    return done_bytes, step
            return done_bytes, None
        finally:
            self._is_running = False
            if self._is_stopped:
                self._steps.close()

    def stop(self) -> None:
        """Removes the files of an unfinished step."""
        self._is_stopped = True
        if not self._is_running:
            self._steps.close()


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


def _walk_for(log_bytes: int) -> Walk:
    if log_bytes < _WORTH_COMPILING_BYTES and not compiled_walk.cache_info().currsize:
        return INTERPRETED_WALK
    return compiled_walk() or INTERPRETED_WALK
