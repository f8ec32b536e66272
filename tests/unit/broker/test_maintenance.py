"""Periodic tasks while partitions are deleted."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from odradek.base.errors import ErrorCode
from odradek.base.ports import Pool
from odradek.broker.maintenance import Maintenance
from odradek.server.periodic import Periodic
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import FakeBroker, run

T = TypeVar("T")


class DeletesTheSecond:
    """While the job of the first partition runs, the second is deleted with its files."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        broker = self._broker
        partition = broker.partition("t", 1)
        assert partition is not None
        if partition.unavailable is None:
            partition.withdraw(ErrorCode.unknown_topic_or_partition)
            broker.log_dirs.delete(partition.log, 0)
            due_ms = 2 * partition.log.config.file_delete_delay_ms
            broker.log_dirs.in_every_dir(lambda log_dir: log_dir.remove_deleted(due_ms))
        return work()


def test_retention_skips_a_deleted_partition(tmp_path: Path) -> None:
    broker = FakeBroker(tmp_path)
    broker.add_topic("t", 2, configs={"retention.ms": "1"})
    for index in range(2):
        broker.append("t", TestRecord(), index=index)
    first = broker.partition("t", 0)
    assert first is not None
    executor = DeletesTheSecond(broker)
    for partition in broker.partitions().values():
        partition._executor = executor  # type: ignore[misc]
    run(Maintenance(broker, Periodic()).enforce_retention())  # type: ignore[arg-type]
    assert first.log.log_start_offset == 1
    assert not broker.failed_log_dirs
