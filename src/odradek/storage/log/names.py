"""Formats and parses the names of Kafka's files and directories."""

import re
from typing import NamedTuple

from odradek.base.ids import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
# Deleted snapshots of the metadata log: the quorum removes them itself.
METADATA_SNAPSHOT_DELETED_SUFFIX = ".checkpoint.deleted"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"
_MARKED_DIR = re.compile(r"(?P<name>\S+-\S+)\.\S+(?P<mark>-delete|-future|-stray)")
_FILE_NAME_LENGTH_MAX = 255

_OFFSET_FILE = re.compile(r"(\d{20})(\.[a-z]+)((?:\.[a-z]+)*)")
OFFSET_MAX = (1 << 63) - 1


class OffsetFile(NamedTuple):
    """`00000000000000000042.log.swap` is (42, ".log", ".swap")."""

    offset: int
    kind: str
    mark: str


class PartitionDir(NamedTuple):
    topic_partition: TopicPartition
    # "", "-delete", "-future" or "-stray"
    mark: str


def offset_file(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse_offset_file(name: str) -> OffsetFile | None:
    """None for a file that is not named by an offset."""
    match = _OFFSET_FILE.fullmatch(name)
    if match is None or int(match[1]) > OFFSET_MAX:
        return None
    return OffsetFile(int(match[1]), match[2], match[3])


def partition_dir(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def marked_partition_dir(topic_partition: TopicPartition, mark: str, unique_id: str) -> str:
    """`orders-0.0f3c…-delete`; the topic is shortened if the name would be too long for a filesystem."""
    ending = f"-{topic_partition.partition}.{unique_id}{mark}"
    return topic_partition.topic[: _FILE_NAME_LENGTH_MAX - len(ending)] + ending


def parse_partition_dir(name: str) -> PartitionDir | None:
    """None for a directory that is not a partition's."""
    mark = ""
    if name.endswith((DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
        match = _MARKED_DIR.fullmatch(name)
        if match is None:
            return None
        mark = match["mark"]
        name = name[: name.rindex(".")]
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return PartitionDir(TopicPartition(topic, int(partition)), mark)
