"""`meta.properties`: the cluster and node that a log dir belongs to, and its directory ID."""

from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import uuid_from_text, uuid_to_text
from odradek.base.ports import Disk
from odradek.config.properties import parse_properties

META_PROPERTIES = "meta.properties"
_VERSION = "1"


class MalformedMetaProperties(ValueError):
    """The file does not identify a cluster and a node."""


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    # None in directories formatted by an older release.
    directory_id: UUID | None


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """None if the directory is not formatted."""
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    try:
        found, _ = parse_properties(disk.read_bytes(path).decode())
        values = {entry.key: entry.value for entry in found}
        version = values.get("version", "0")
        if version != _VERSION:
            raise ValueError(
                f"version {version} was written by a ZooKeeper-based Kafka" if version == "0" else f"version {version}"
            )
        directory_id = values.get("directory.id")
        return MetaProperties(
            values["cluster.id"],
            int(values["node.id"]),
            None if directory_id is None else uuid_from_text(directory_id),
        )
    except KeyError as error:
        raise MalformedMetaProperties(f"{path}: {error.args[0]} is missing") from None
    except ValueError as error:
        raise MalformedMetaProperties(f"{path}: {error}") from None


def write_meta_properties(disk: Disk, directory: str, meta: MetaProperties) -> None:
    lines = ["#", f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_to_text(meta.directory_id)}")
    lines += [f"node.id={meta.node_id}", f"version={_VERSION}", ""]
    disk.write_atomically(f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode())
