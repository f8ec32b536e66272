"""The log dirs of a broker with their size and free disk space."""

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    path: str
    has_failed: bool
    sizes: Mapping[TopicPartition, int]
    """Without future replicas, which are being copied from another log dir."""
    total_bytes: int | None
    """Size of the disk; None if the broker does not report it. The same holds for the usable bytes."""
    usable_bytes: int | None


def log_dirs_of(cluster: Cluster, broker: int) -> tuple[LogDir, ...]:
    """Request once, without retries, because the console polls every second."""
    response = cluster.send_to_broker(
        broker, ApiKey.DESCRIBE_LOG_DIRS, lambda chosen: chosen.new("DescribeLogDirsRequest", topics=None)
    )
    if hasattr(response, "error_code"):
        raise_for_error(response)
    return tuple(_log_dir(result) for result in response.results)


def _log_dir(result: Message) -> LogDir:
    return LogDir(
        path=result.log_dir,
        has_failed=result.error_code is not ErrorCode.none,
        sizes={
            TopicPartition(topic.name, one.partition_index): one.partition_size
            for topic in result.topics
            for one in topic.partitions
            if not one.is_future_key
        },
        total_bytes=_none_if_negative(getattr(result, "total_bytes", -1)),
        usable_bytes=_none_if_negative(getattr(result, "usable_bytes", -1)),
    )


def _none_if_negative(amount: int) -> int | None:
    return None if amount < 0 else amount
