"""Log compaction in the background: runs the log cleaner while there are dirty logs."""

import asyncio
import logging
from typing import Final

from odradek.base.background import start_task
from odradek.base.ports import Disk
from odradek.broker.broker import Broker
from odradek.config.node_config import NodeConfig
from odradek.storage.log.compaction_cleaner import Cleaner, CleanerSettings

logger = logging.getLogger(__name__)


class Cleaning:
    def __init__(self, broker: Broker, disk: Disk) -> None:
        self._broker: Final = broker
        self._cleaner: Final = Cleaner(
            disk,
            broker.log_dirs.online,
            executor=broker.executor,
            threads_of=broker.threads_of,
            workers=broker.workers,
            random=broker.random,
            pause=asyncio.sleep,
            settings=_settings(broker.config),
        )
        self._workers: Final[list[asyncio.Task[None]]] = []
        self._config_changes: Final = asyncio.Event()
        broker.on_config(self._on_config_change)
        broker.on_partition_deleted(self._cleaner.forget)
        broker.on_partition_truncated(self._cleaner.on_truncation)
        broker.on_log_dir_failure(self._cleaner.on_log_dir_failure)

    async def run(self) -> None:
        """Runs until cancelled, with `log.cleaner.threads` workers."""
        try:
            while True:
                self._adjust_workers()
                await self._config_changes.wait()
                self._config_changes.clear()
        finally:
            for worker in self._workers:
                worker.cancel()

    def _adjust_workers(self) -> None:
        wanted = self._broker.config.log_cleaner_threads
        while len(self._workers) < wanted:
            self._workers.append(start_task("log cleaner", self._work()))
        while len(self._workers) > wanted:
            self._workers.pop().cancel()

    async def _work(self) -> None:
        while True:
            config = self._broker.config
            if not (config.log_cleaner_enable and await self._clean_one()):
                await asyncio.sleep(config.log_cleaner_backoff_ms / 1000)

    async def _clean_one(self) -> bool:
        partitions = [one for one in self._broker.partitions().values() if one.unavailable is None]
        try:
            cleaned = await self._cleaner.clean_dirtiest(partitions, self._broker.clock.wall_ms())
        except OSError as error:
            directory = self._directory_of(error)
            if directory is None:
                logger.exception("Log compaction failed")
            else:
                self._broker.fail_log_dir(directory, error)
            return False
        except Exception:
            logger.exception("Log compaction failed; the next attempt follows after log.cleaner.backoff.ms")
            return False
        if cleaned is not None:
            logger.info(
                "Compacted %s from offset %d to %d: %s",
                cleaned.partition,
                cleaned.first_dirty_offset,
                cleaned.end_offset,
                cleaned.stats,
            )
        return cleaned is not None

    def _directory_of(self, error: OSError) -> str | None:
        path = error.filename if isinstance(error.filename, str) else ""
        return next((one for one in self._broker.log_dirs.online if path.startswith(f"{one}/")), None)

    def _on_config_change(self, config: NodeConfig) -> None:
        self._cleaner.settings = _settings(config)
        self._config_changes.set()


def _settings(config: NodeConfig) -> CleanerSettings:
    return CleanerSettings(
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads,
        dedupe_buffer_load_factor=config.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second / config.log_cleaner_threads,
    )
