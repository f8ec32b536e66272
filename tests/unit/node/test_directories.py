"""All directories are locked and must belong to this node; no partition that may be in an offline one is created."""

import asyncio
import errno
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition
from odradek.base.ports import Pool
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.host.disk import HostDisk
from odradek.node.directories import NodeDirectories
from odradek.quorum.format import FormatRequest, format_directories
from odradek.storage.log.log_dir import LogDirError
from odradek.storage.log.log_dirs import LogDirFailed, LogDirOffline, LogDirs, WantedLog
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create

T = TypeVar("T")
NAME, TOPIC_ID, UNASSIGNED = TopicPartition("orders", 0), UUID(int=1 << 64), UUID(int=0)


class Inline:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


def threads_of(path: str) -> LogDirThreads:
    return LogDirThreads(path, Inline())


def new_ids() -> Iterator[UUID]:
    number = 1 << 80
    while True:
        number += 1
        yield UUID(int=number)


def config_of(*log_dirs: Path, metadata: Path | None = None) -> NodeConfig:
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        "controller.quorum.voters=1@localhost:9093",
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={','.join(map(str, log_dirs))}",
    ]
    if metadata is not None:
        lines.append(f"metadata.log.dir={metadata}")
    return NodeConfig.load("\n".join(lines), "server.properties")


def formatted(config: NodeConfig, cluster_id: str = "our-cluster") -> NodeConfig:
    format_directories(HostDisk(), config, FormatRequest(cluster_id=cluster_id), random=random.Random(1), now_ms=0)
    return config


def open_all(config: NodeConfig) -> NodeDirectories:
    return NodeDirectories.open(HostDisk(), config, new_ids().__next__)


def test_separate_metadata_dir_is_locked(tmp_path: Path) -> None:
    first = formatted(config_of(tmp_path / "data", metadata=tmp_path / "metadata"))
    opened = open_all(first)
    assert opened.cluster_id == "our-cluster"
    assert opened.metadata_directory_id not in opened.logs.directory_ids.values()
    with pytest.raises(LogDirError, match="metadata is locked by another process"):
        open_all(config_of(tmp_path / "elsewhere" / "data", metadata=tmp_path / "metadata"))
    opened.abandon()
    open_all(first).close(broker_epoch=3)
    again = open_all(first)
    assert again.metadata_had_clean_shutdown
    assert again.logs.previous_broker_epoch == 3
    again.abandon()


def test_metadata_dir_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    formatted(config_of(tmp_path / "theirs"), "their-cluster")
    formatted(config_of(tmp_path / "ours"))
    with pytest.raises(LogDirError, match="ours belongs to cluster our-cluster, not to their-cluster"):
        open_all(config_of(tmp_path / "ours", metadata=tmp_path / "theirs"))
    # Nothing stays locked.
    open_all(config_of(tmp_path / "ours")).abandon()


def test_offline_metadata_dir_prevents_the_start(tmp_path: Path) -> None:
    config = formatted(config_of(tmp_path / "one", tmp_path / "two"))

    class Broken(HostDisk):
        def read_bytes(self, path: str) -> bytes:
            if path.startswith(config.metadata_log_dir):
                raise OSError(errno.EIO, "Input/output error", path)
            return super().read_bytes(path)

    with pytest.raises(LogDirError, match=r"The metadata log dir .*/one failed: .*Free space or repair the disk"):
        NodeDirectories.open(Broken(), config, new_ids().__next__)
    open_all(config).abandon()


def open_logs(*paths: Path) -> LogDirs:
    return LogDirs.open(
        HostDisk(), list(map(str, paths)), node_id=1, cluster_id="our-cluster", new_id=new_ids().__next__
    )


def create(logs: LogDirs, *, is_new: bool, directory_id: UUID = UNASSIGNED) -> str:
    async def run() -> str:
        wanted = WantedLog(NAME, TOPIC_ID, TopicConfig.resolve({}), directory_id)
        (log,) = await get_or_create(logs, [wanted], is_new=is_new, now_ms=0, threads_of=threads_of)
        if isinstance(log, Exception):
            raise log
        return logs.dir_of(log)

    return asyncio.run(run())


def test_partition_that_may_be_in_an_offline_dir_is_not_created(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "one", tmp_path / "two")
    logs.fail(str(tmp_path / "two"), OSError(errno.EIO, "Input/output error"))
    with pytest.raises(LogDirOffline, match="may be in an offline log dir"):
        create(logs, is_new=False)
    # One that was just created lies nowhere yet.
    assert create(logs, is_new=True) == str(tmp_path / "one")
    logs.abandon()


def test_partition_in_an_offline_dir_stays_offline(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "one", tmp_path / "two")
    lost = logs.directory_ids[str(tmp_path / "two")]
    logs.fail(str(tmp_path / "two"), OSError(errno.EIO, "Input/output error"))
    for is_new in (True, False):
        with pytest.raises(LogDirOffline, match="may be in an offline log dir"):
            create(logs, is_new=is_new, directory_id=lost)
    logs.abandon()


def test_disk_error_during_creation_names_the_dir(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "one")
    (tmp_path / "one" / str(NAME)).write_bytes(b"in the way")
    with pytest.raises(LogDirFailed) as failed:
        create(logs, is_new=True)
    assert failed.value.directory == str(tmp_path / "one")
    logs.abandon()
