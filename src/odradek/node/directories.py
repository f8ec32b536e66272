"""The log dirs of one node, locked and checked: those of the partitions, and that of the metadata log.

The metadata log is in one of the log dirs, unless `metadata.log.dir` names a directory of its own.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from odradek.base.ports import Disk
from odradek.config.node_config import NodeConfig
from odradek.storage.log.log_dir import LogDirError
from odradek.storage.log.log_dirs import LogDirs

logger = logging.getLogger(__name__)


class NodeDirectories:
    def __init__(self, config: NodeConfig, logs: LogDirs, metadata: LogDirs) -> None:
        """Use `open` instead."""
        self._metadata_path: Final = config.metadata_log_dir
        self.logs: Final = logs
        self._metadata: Final = metadata

    @classmethod
    def open(cls, disk: Disk, config: NodeConfig, new_id: Callable[[], UUID]) -> "NodeDirectories":
        """Raises LogDirError."""

        def open_dirs(paths: Sequence[str], cluster_id: str | None) -> LogDirs:
            return LogDirs.open(disk, paths, node_id=config.node_id, cluster_id=cluster_id, new_id=new_id)

        if config.metadata_log_dir in config.log_dirs:
            logs = metadata = open_dirs(config.log_dirs, None)
        else:
            metadata = open_dirs([config.metadata_log_dir], None)
            try:
                logs = open_dirs(config.log_dirs, metadata.cluster_id)
            except LogDirError:
                metadata.abandon()
                raise
        if failure := metadata.offline.get(config.metadata_log_dir):
            metadata.abandon()
            raise LogDirError(describe_metadata_failure(config.metadata_log_dir, failure))
        for directory, error in logs.offline.items():
            logger.error("Log dir offline: dir=%s, reason=%s", directory, error)
        logs.producer_id_expiration_ms = config.producer_id_expiration_ms
        return cls(config, logs, metadata)

    @property
    def cluster_id(self) -> str:
        cluster_id = self.logs.cluster_id
        assert cluster_id is not None, "`open` rejects a directory without a cluster ID"
        return cluster_id

    @property
    def metadata_directory_id(self) -> UUID:
        return self._metadata.directory_ids[self._metadata_path]

    @property
    def metadata_had_clean_shutdown(self) -> bool:
        return self._metadata.had_clean_shutdown

    def close(self, broker_epoch: int) -> None:
        """A clean shutdown, after all logs are closed."""
        self.logs.close(broker_epoch)
        if self._metadata is not self.logs:
            self._metadata.close(broker_epoch)

    def abandon(self) -> None:
        """Releases the locks without the marker of a clean shutdown."""
        self.logs.abandon()
        self._metadata.abandon()


def repair_hint(error: OSError) -> str:
    return f"{error.strerror or error}. Free space or repair the disk, then restart the node."


def describe_last_failure(directory: str, error: OSError) -> str:
    return f"The last log dir {directory} failed: {repair_hint(error)}"


def describe_metadata_failure(directory: str, error: OSError) -> str:
    return f"The metadata log dir {directory} failed: {repair_hint(error)}"
