"""All log dirs of a node: loads, places and removes partitions, writes checkpoints, handles failures.

Calls block and may run in any thread. The caller takes a log dir whose disk failed offline with `fail`, because only it
knows which components to notify.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import KafkaError, is_disk_failure
from odradek.base.ids import METADATA_TOPIC, TopicPartition
from odradek.base.ports import Disk, DiskUsage
from odradek.config.topic_config import TopicConfig
from odradek.storage.log import names
from odradek.storage.log.log_dir import LogDir, LogDirError, agree_on_identity
from odradek.storage.log.partition_log import PRODUCER_ID_EXPIRATION_MS, PartitionLog
from odradek.storage.log.partition_metadata import read_topic_id

# Kafka reserves the UUIDs below this number: no log dir has one.
_RESERVED_DIRECTORY_IDS = 100


class DirFailure(NamedTuple):
    directory: str
    error: OSError


class LogDirOffline(Exception):
    """The partition's log dir is not online."""


class LogDirFailed(Exception):
    """A log dir's disk failed for one partition: the caller takes the whole log dir offline."""

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(f"{directory}: {error}")
        self.directory = directory
        self.error = error


class WantedLog(NamedTuple):
    """A log that this node should have."""

    name: TopicPartition
    topic_id: UUID
    config: TopicConfig
    directory_id: UUID | None = None
    """The log dir in which to create it; None: the one with the fewest partitions."""


class LoadProgress(NamedTuple):
    """The progress of one partition's recovery."""

    topic_partition: TopicPartition
    scanned_bytes: int
    bytes_to_scan: int


class LogDirs:
    def __init__(
        self, disk: Disk, dirs: Sequence[LogDir], failures: Sequence[DirFailure], new_id: Callable[[], UUID]
    ) -> None:
        """Internal: use `open`."""
        self._disk = disk
        self._new_id = new_id
        self.online: dict[str, LogDir] = {log_dir.path: log_dir for log_dir in dirs}
        self.offline: dict[str, OSError] = {failure.directory: failure.error for failure in failures}
        self.producer_id_expiration_ms = PRODUCER_ID_EXPIRATION_MS

    @classmethod
    def open(
        cls, disk: Disk, paths: Sequence[str], *, node_id: int, cluster_id: str | None, new_id: Callable[[], UUID]
    ) -> "LogDirs":
        """Locks every log dir and checks that it belongs to this node. Assigns missing directory IDs.

        Raises LogDirError if an operator has to act. A log dir that cannot be read is offline from the start, unless
        it is the last one.
        """
        dirs: list[LogDir] = []
        failures: list[DirFailure] = []
        try:
            for path in paths:
                try:
                    dirs.append(LogDir.open(disk, path))
                except OSError as error:
                    failures.append(DirFailure(path, error))
            _raise_if_none_online(dirs, failures)
            agree_on_identity(disk, dirs, node_id, cluster_id, new_id)
            for log_dir in list(dirs):
                try:
                    log_dir.begin()
                except OSError as error:
                    log_dir.abandon()
                    dirs.remove(log_dir)
                    failures.append(DirFailure(log_dir.path, error))
            _raise_if_none_online(dirs, failures)
        except BaseException:
            for log_dir in dirs:
                log_dir.abandon()
            raise
        return cls(disk, dirs, failures, new_id)

    # ---- state

    @property
    def cluster_id(self) -> str | None:
        return next((log_dir.meta.cluster_id for log_dir in self.online.values() if log_dir.meta is not None), None)

    @property
    def directory_ids(self) -> dict[str, UUID]:
        """The directory IDs of the online log dirs."""
        return {path: one.directory_id for path, one in self.online.items() if one.directory_id is not None}

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last run if it shut down cleanly in all log dirs; otherwise -1."""
        epochs = {log_dir.previous_broker_epoch for log_dir in self.online.values()}
        epoch = epochs.pop() if len(epochs) == 1 and not self.offline else None
        return -1 if epoch is None else epoch

    @property
    def had_clean_shutdown(self) -> bool:
        return all(log_dir.had_clean_shutdown for log_dir in self.online.values())

    def get(self, name: TopicPartition) -> PartitionLog | None:
        for log_dir in self.online.values():
            log = log_dir.logs.get(name)
            if log is not None:
                return log
        return None

    def logs(self) -> Iterator[PartitionLog]:
        for log_dir in list(self.online.values()):
            yield from list(log_dir.logs.values())

    def dir_of(self, log: PartitionLog) -> str:
        """The path of the log dir that contains the log."""
        return log.directory.rpartition("/")[0]

    def usage(self, directory: str) -> DiskUsage:
        return self._disk.usage(directory)

    def checkpointed_high_watermark(self, name: TopicPartition) -> int:
        return max((log_dir.high_watermarks.get(name, 0) for log_dir in self.online.values()), default=0)

    # ---- loading

    def loading_jobs(
        self,
        config_for: Callable[[str], TopicConfig],
        *,
        now_ms: int,
        is_stray: Callable[[TopicPartition, UUID | None], bool] = lambda *_: False,
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> list[Callable[[], DirFailure | None]]:
        """One job for each partition found on disk. Run them in any threads, all before any other call.

        A job returns the failure of its log dir if the disk fails. `is_stray` returns whether the metadata has no such
        replica on this node, by name and topic ID; a stray log is renamed, not deleted.
        """

        def job(log_dir: LogDir, name: str, found: names.PartitionDir) -> Callable[[], DirFailure | None]:
            def load() -> DirFailure | None:
                try:
                    self._load(log_dir, name, found, config_for, now_ms, is_stray, progress)
                except OSError as error:
                    return DirFailure(log_dir.path, error)
                except (KafkaError, ValueError) as error:
                    # Corruption that recovery does not repair.
                    return DirFailure(log_dir.path, OSError(errno.EIO, str(error), log_dir.file(name)))
                return None

            return load

        jobs: list[Callable[[], DirFailure | None]] = []
        for log_dir in self.online.values():
            try:
                partition_dirs = log_dir.partition_dirs()
            except OSError as error:
                jobs.append(partial(DirFailure, log_dir.path, error))
                continue
            for name, found in partition_dirs:
                if found.topic_partition.topic == METADATA_TOPIC:
                    continue
                if found.mark == names.DELETE_DIR_SUFFIX:
                    log_dir.deleted.add(log_dir.file(name), now_ms)
                elif found.mark != names.STRAY_DIR_SUFFIX:
                    jobs.append(job(log_dir, name, found))
        return jobs

    def _load(
        self,
        log_dir: LogDir,
        name: str,
        found: names.PartitionDir,
        config_for: Callable[[str], TopicConfig],
        now_ms: int,
        is_stray: Callable[[TopicPartition, UUID | None], bool],
        progress: Callable[[LoadProgress], None] | None,
    ) -> None:
        partition = found.topic_partition
        directory = log_dir.file(name)
        topic_id = read_topic_id(self._disk, directory)
        if is_stray(partition, topic_id) or (
            # Then none of its records was acknowledged, and it may belong to a deleted topic of the same name.
            topic_id is None and not log_dir.had_clean_shutdown and self._holds_records(directory)
        ):
            marked = names.marked_partition_dir(partition, names.STRAY_DIR_SUFFIX, self._new_id().hex)
            self._disk.rename(directory, log_dir.file(marked))
            return
        # Existing checkpoints may belong to an earlier log of the same name, not to a future log.
        is_future = found.mark == names.FUTURE_DIR_SUFFIX
        log = PartitionLog.open(
            self._disk,
            directory,
            topic_partition=partition,
            topic_id=topic_id,
            config=config_for(partition.topic),
            recovery_point=None if is_future else log_dir.recovery_point_of(partition),
            was_compacted=log_dir.was_compacted(partition),
            log_start_offset=0 if is_future else log_dir.log_starts.get(partition, 0),
            had_clean_shutdown=log_dir.had_clean_shutdown,
            now_ms=now_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            progress=None if progress is None else lambda done, total: progress(LoadProgress(partition, done, total)),
        )
        logs = log_dir.future_logs if is_future else log_dir.logs
        logs[partition] = log

    def finish_loading(self) -> list[DirFailure]:
        """Call it after all loading jobs."""
        return self.in_every_dir(LogDir.finish_loading)

    def _holds_records(self, directory: str) -> bool:
        parsed = {name: names.parse_offset_file(name) for name in self._disk.list_dir(directory)}
        return any(
            found is not None
            and found.kind == names.LOG_SUFFIX
            and not found.mark
            and self._disk.size(f"{directory}/{name}") > 0
            for name, found in parsed.items()
        )

    # ---- creating and removing

    def choose_dir(
        self, directory_id: UUID | None, *, is_new: bool = True, is_stalled: Callable[[str], bool] = lambda _: False
    ) -> LogDir:
        """The requested log dir, or the one with the fewest partitions. Raises LogDirOffline if a log that cannot be
        created may exist in an offline log dir."""
        for log_dir in self.online.values():
            if directory_id is not None and log_dir.directory_id == directory_id:
                return log_dir
        if not self.online:
            raise LogDirOffline("no log dir is online")
        # A requested log dir that does not exist was replaced, and its data no longer exists. Or it is offline: an
        # empty log elsewhere would hide acknowledged records.
        is_meant = directory_id is not None and directory_id.int >= _RESERVED_DIRECTORY_IDS
        if self.offline and (is_meant or not is_new):
            raise LogDirOffline(f"it may be in an offline log dir: {', '.join(self.offline)}")
        responding = [one for one in self.online.values() if not is_stalled(one.path)]
        return min(responding or self.online.values(), key=lambda log_dir: log_dir.partition_count)

    def create_all(
        self, log_dir: LogDir, wanted: Iterable[WantedLog], now_ms: int
    ) -> dict[TopicPartition, PartitionLog | LogDirFailed]:
        """Creates logs; each has its own result. The caller adds them to the log dir."""
        results: dict[TopicPartition, PartitionLog | LogDirFailed] = {}
        failed: LogDirFailed | None = None
        for one in wanted:
            if failed is None:
                try:
                    results[one.name] = self._create(log_dir, one, now_ms)
                except OSError as error:
                    results[one.name] = problem = LogDirFailed(log_dir.path, error)
                    if is_disk_failure(error):
                        failed = problem
            else:
                results[one.name] = failed
        return results

    def _create(self, log_dir: LogDir, wanted: WantedLog, now_ms: int) -> PartitionLog:
        name, topic_id, config, _ = wanted
        found = log_dir.logs.get(name)
        if found is not None and found.topic_id is None:
            found.adopt(topic_id)
            return found
        log_dir.forget_checkpoints_of(name)
        return self._open_new(log_dir, names.partition_dir(name), name, topic_id, config, now_ms)

    def _open_new(
        self, log_dir: LogDir, directory: str, name: TopicPartition, topic_id: UUID, config: TopicConfig, now_ms: int
    ) -> PartitionLog:
        return PartitionLog.open(
            self._disk,
            log_dir.file(directory),
            topic_partition=name,
            topic_id=topic_id,
            config=config,
            had_clean_shutdown=False,
            now_ms=now_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )

    def create_future(
        self, name: TopicPartition, topic_id: UUID, config: TopicConfig, directory: str, now_ms: int
    ) -> PartitionLog:
        """Creates an empty future log in another log dir, to be filled and then promoted."""
        log_dir = self.online.get(directory)
        if log_dir is None:
            raise OSError(errno.ENODEV, f"log dir {directory} is not online")
        marked = names.marked_partition_dir(name, names.FUTURE_DIR_SUFFIX, self._new_id().hex)
        log = self._open_new(log_dir, marked, name, topic_id, config, now_ms)
        log_dir.future_logs[name] = log
        return log

    def promote(self, log: PartitionLog) -> None:
        """Makes a future log the partition's log. The caller deletes the one it replaces."""
        log_dir = self.online[self.dir_of(log)]
        name = log.topic_partition
        # Before the log is renamed: from then on they apply to it.
        log_dir.checkpoint_recovery_points()
        log_dir.checkpoint_log_starts()
        log.move_to(log_dir.file(names.partition_dir(name)))
        del log_dir.future_logs[name]
        log_dir.logs[name] = log

    def delete(self, log: PartitionLog, now_ms: int) -> None:
        """Marks the partition's directory for deletion; `remove_deleted` removes it after file.delete.delay.ms."""
        log_dir = self.online.get(self.dir_of(log))
        if log_dir is None:
            return
        name = log.topic_partition
        for logs in (log_dir.logs, log_dir.future_logs):
            if logs.get(name) is log:
                del logs[name]
        marked = names.marked_partition_dir(name, names.DELETE_DIR_SUFFIX, self._new_id().hex)
        log.is_deleted = True
        log.move_to(log_dir.file(marked))
        log.abandon_files()
        log_dir.deleted.add(log.directory, now_ms + log.config.file_delete_delay_ms, log.end_ranges)

    # ---- checkpoints

    def in_every_dir(self, work: Callable[[LogDir], None]) -> list[DirFailure]:
        failures = []
        for log_dir in list(self.online.values()):
            try:
                work(log_dir)
            except OSError as error:
                failures.append(DirFailure(log_dir.path, error))
        return failures

    # ---- closing

    def fail(self, directory: str, error: OSError, *, is_hung: bool = False) -> list[TopicPartition]:
        """Takes a dir offline and returns the partitions that were in it.

        If its disk hangs, closing its files could block: they stay open, and its lock held, until the process ends.
        """
        log_dir = self.online.pop(directory, None)
        if log_dir is None:
            return []
        self.offline[directory] = error
        if not is_hung:
            log_dir.abandon()
        return [*log_dir.logs, *log_dir.future_logs]

    def closing_jobs(self, directory: str | None = None) -> list[Callable[[], DirFailure | None]]:
        """One job for each partition, of one log dir or of all. Run them in any threads before `close`."""

        def job(log_dir: LogDir, log: PartitionLog) -> Callable[[], DirFailure | None]:
            def close() -> DirFailure | None:
                try:
                    log.close()
                except OSError as error:
                    return DirFailure(log_dir.path, error)
                return None

            return close

        return [
            job(log_dir, log)
            for log_dir in self.online.values()
            if directory in (None, log_dir.path)
            for log in (*log_dir.logs.values(), *log_dir.future_logs.values())
        ]

    def close(self, broker_epoch: int) -> list[DirFailure]:
        """Closes cleanly. The caller must have called `fail` for log dirs in which a closing job failed."""
        failures = self.in_every_dir(lambda log_dir: log_dir.close(broker_epoch))
        for failure in failures:
            self.fail(*failure)
        self.online = {}
        return failures

    def abandon(self) -> None:
        """Stops like a crash, but releases the locks."""
        for log_dir in self.online.values():
            log_dir.abandon()
        self.online = {}


def _raise_if_none_online(dirs: Sequence[LogDir], failures: Sequence[DirFailure]) -> None:
    if not dirs:
        reasons = "; ".join(f"{failure.directory}: {failure.error.strerror or failure.error}" for failure in failures)
        raise LogDirError(f"no log dir is usable ({reasons}). Free space or repair the disk, then restart the node.")
