"""Kafka's checkpoint files: a version, a count, then one entry per line. They are replaced atomically."""

from collections.abc import Iterable, Mapping

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_VERSION = 0


class MalformedCheckpoint(ValueError):
    """The file cannot be read as a checkpoint."""


def encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(_VERSION), str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes, path: str) -> list[list[str]]:
    """The fields of every entry. A file that is empty, or ends after the version, has no entries."""
    try:
        lines = data.decode().splitlines()
        if len(lines) < 2:
            if lines and int(lines[0]) != _VERSION:
                raise MalformedCheckpoint(f"{path}: unknown version {lines[0]}")
            return []
        version, count = int(lines[0]), int(lines[1])
    except ValueError as error:
        raise MalformedCheckpoint(f"{path}: {error}") from None
    if version != _VERSION:
        raise MalformedCheckpoint(f"{path}: unknown version {version}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise MalformedCheckpoint(f"{path}: {count} entries expected, {len(entries)} found")
    return entries


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; empty if the file does not exist."""
    if not disk.exists(path):
        return {}
    offsets = {}
    try:
        for topic, partition, offset in decode_lines(disk.read_bytes(path), path):
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError as error:
        raise MalformedCheckpoint(f"{path}: {error}") from None
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{name.topic} {name.partition} {offset}" for name, offset in sorted(offsets.items()))
    disk.write_atomically(path, encode_lines(lines))
