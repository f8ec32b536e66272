"""A broker with a large `__consumer_offsets`: commits of many groups, most of them replaced by later ones."""

import os
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.core.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from odradek.host.disk import HostDisk
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.storage.log.partition_log import PartitionLog
from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection

TOPIC: Final = "__consumer_offsets"
COMMITTED_TOPIC: Final = "orders-by-customer"
KEYS: Final = 50_000
# As many as a broker under load shares a batch between.
_BATCH_RECORDS: Final = 10
_GROUP: Final = 0
_GROUP_PARTITIONS: Final = 10
# One partition, whose cleaner does not pause; compaction starts when a test lowers the ratio.
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "1.0",
}


class WithoutNumba(OdradekProcess):
    """A broker for which numba is not installed."""

    def environment(self) -> dict[str, str]:
        hiding = self.directory / "without-numba"
        hiding.mkdir(exist_ok=True)
        (hiding / "numba.py").write_text('raise ImportError("hidden")\n')
        inherited = super().environment()
        paths = [str(hiding), *filter(None, [inherited.get("PYTHONPATH")])]
        return inherited | {"PYTHONPATH": os.pathsep.join(paths)}


def create_offsets_topic(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        connection.request(Api.FIND_COORDINATOR, 4, {"key_type": _GROUP, "coordinator_keys": ["some"]})


def fill(node: OdradekProcess, size_bytes: int) -> None:
    """Appends commits while the broker is stopped."""
    directory = node.log_dirs[0] / f"{TOPIC}-0"
    log = PartitionLog.open(
        HostDisk(),
        str(directory),
        topic_partition=TopicPartition(TOPIC, 0),
        topic_id=None,
        config=TopicConfig.resolve({"segment.bytes": str(100 << 20)}),
        had_clean_shutdown=True,
        now_ms=0,
    )
    batches = [_commits(start) for start in range(0, KEYS, _BATCH_RECORDS)]
    written = 0
    while written < size_bytes:
        for batch in batches:
            data = bytearray(batch)
            log.append_as_leader(data, parse_batches(data), leader_epoch=0, now_ms=0)
            written += len(data)
    log.roll(0)
    log.close()


def group_of(number: int) -> str:
    return f"payments-{number // _GROUP_PARTITIONS:06}"


def partition_of(number: int) -> int:
    return number % _GROUP_PARTITIONS


def has_loaded(node: OdradekProcess) -> bool:
    return f"records of {TOPIC}-0 in epoch" in node.output_file.read_text()


def has_compacted(node: OdradekProcess) -> bool:
    return f"Compacted {TOPIC}-0" in node.output_file.read_text()


def _commits(start: int) -> bytes:
    return build_batch([_commit(number) for number in range(start, start + _BATCH_RECORDS)])


def _commit(number: int) -> Record:
    key = OffsetCommitKey(group=group_of(number), topic=COMMITTED_TOPIC, partition=partition_of(number))
    value = OffsetCommitValue(
        offset=number, leader_epoch=3, metadata="", commit_timestamp=1_700_000_000_000, expire_timestamp=-1
    )
    record = GroupRecord(key, value)
    return Record(encode_key(record), encode_value(record), 1_700_000_000_000)
