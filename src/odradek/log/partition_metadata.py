"""`partition.metadata`: which topic, by id, a partition's directory belongs to."""

from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text
from odradek.base.ports import Disk
from odradek.log.names import PARTITION_METADATA

_VERSION = 0


class MalformedPartitionMetadata(ValueError):
    """The file names no topic id."""


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    """None if there is no such file, as in directories older than topic ids."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    try:
        # A newer version may only add lines.
        version_line, topic_line, *_ = disk.read_bytes(path).decode().splitlines()
        _, version = version_line.split()
        _, text = topic_line.split()
        topic_id = uuid_from_text(text)
        if int(version) < _VERSION or topic_id == ZERO_UUID:
            raise ValueError("unusable version or topic id")
    except ValueError as error:
        raise MalformedPartitionMetadata(f"{path}: {error}") from None
    return topic_id


def write_topic_id(disk: Disk, directory: str, topic_id: UUID) -> None:
    text = f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}"
    disk.write_atomically(f"{directory}/{PARTITION_METADATA}", text.encode())


def agree_on_topic_id(
    disk: Disk, directory: str, topic_partition: TopicPartition, topic_id: UUID | None
) -> UUID | None:
    """Writes the id where none is, and refuses a directory that belongs to another topic of the same name."""
    found = read_topic_id(disk, directory)
    if found is None:
        if topic_id is not None:
            write_topic_id(disk, directory, topic_id)
        return topic_id
    if topic_id is not None and topic_id != found:
        raise KafkaError(
            ErrorCode.inconsistent_topic_id,
            f"Tried to assign topic ID {uuid_to_text(topic_id)} to log for topic partition {topic_partition}, but log "
            f"already contained topic ID {uuid_to_text(found)}",
        )
    return found
