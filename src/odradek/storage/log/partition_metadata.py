"""`partition.metadata`: the topic ID of a partition's directory.

Creating a partition does not sync: file and directory are synced before the partition's first record is. A power loss
in between leaves no file or an empty one, and a full disk leaves a partial one; no record in such a directory was
acknowledged.
"""

from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text
from odradek.base.ports import Disk
from odradek.storage.log.names import PARTITION_METADATA

_VERSION = 0
_BEFORE_THE_ID = f"version: {_VERSION}\ntopic_id: ".encode()
_SIZE = len(_BEFORE_THE_ID) + len(uuid_to_text(ZERO_UUID))


class MalformedPartitionMetadata(ValueError):
    """The file contains no valid topic ID."""


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    """None if the file is missing, empty or incomplete."""
    path = f"{directory}/{PARTITION_METADATA}"
    content = disk.read_bytes(path).strip(b"\0") if disk.exists(path) else b""
    if len(content) < _SIZE and (_BEFORE_THE_ID.startswith(content) or content.startswith(_BEFORE_THE_ID)):
        return None
    try:
        # Newer versions only add lines.
        version_line, topic_line, *_ = content.decode().splitlines()
        _, version = version_line.split()
        _, text = topic_line.split()
        topic_id = uuid_from_text(text)
        if int(version) < _VERSION or topic_id == ZERO_UUID:
            raise ValueError("invalid version or topic ID")
    except ValueError as error:
        raise MalformedPartitionMetadata(f"{path}: {error}") from None
    return topic_id


def write_topic_id(disk: Disk, directory: str, topic_id: UUID) -> None:
    """Writes the file. It is durable only after `sync_identity`."""
    _write(disk, directory, topic_id, sync=False)


def _write(disk: Disk, directory: str, topic_id: UUID, *, sync: bool) -> None:
    content = _BEFORE_THE_ID + uuid_to_text(topic_id).encode()
    file = disk.open(f"{directory}/{PARTITION_METADATA}", create=True)
    try:
        file.write_at(0, content)
        file.truncate(len(content))
        if sync:
            file.sync()
    finally:
        file.close()


def sync_identity(disk: Disk, directory: str, topic_id: UUID | None) -> None:
    """Syncs the directory, its name and its topic ID.

    Writes the topic ID again: the file was closed since, and so this descriptor reports no earlier write-back error.
    """
    if topic_id is not None:
        _write(disk, directory, topic_id, sync=True)
    disk.sync_dir(directory)
    disk.sync_dir(directory.rpartition("/")[0])


def agree_on_topic_id(
    disk: Disk, directory: str, topic_partition: TopicPartition, topic_id: UUID | None
) -> UUID | None:
    """Writes a missing topic ID, and rejects a directory of another topic with the same name."""
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
