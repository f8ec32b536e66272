"""Formatting: the files by which empty directories become the log dirs of one node of one cluster.

Each gets `meta.properties` and `bootstrap.checkpoint`; the metadata log's dir, for a quorum that can grow later, also
a first snapshot that names this node as its only voter. What is written is what Apache Kafka's own tool writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from odradek.base.ids import uuid_to_text
from odradek.base.ports import Disk, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.log.meta_properties import (
    MalformedMetaProperties,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from odradek.metadata.directories import RESERVED_MAX
from odradek.metadata.features import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    REQUIRED_METADATA_VERSION,
    SUPPORTED_FEATURES,
    MetadataVersion,
    default_levels,
    metadata_version_named,
    metadata_version_of_level,
)
from odradek.metadata.snapshot import BOOTSTRAP_FILE, SnapshotId, encode_bootstrap, encode_snapshot
from odradek.node.metadata_log import PARTITION
from odradek.raft.voters import standalone as standalone_quorum
from odradek.records.control import VoterEndpoint

FIRST_SNAPSHOT = SnapshotId(0, 0)


class FormatError(Exception):
    """The directories cannot be formatted so; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    cluster_id: str
    is_standalone: bool = False
    """The quorum starts with this node as its only voter, and others may join it later."""
    release: str | None = None
    """`4.3`, `4.3-IV0`: the metadata version to start with, by name. None: the latest."""
    feature_levels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Levels that are to differ from the release's own."""
    ignore_formatted: bool = False


def format_directories(
    disk: Disk, config: NodeConfig, request: FormatRequest, *, random: Random, now_ms: int
) -> list[str]:
    """Formats the directories that are not yet; returns a line for each. Raises FormatError, or OSError."""
    _check_quorum(config, request)
    version, levels = _effective_levels(request)
    unformatted = _unformatted_directories(disk, config, request)
    bootstrap = encode_bootstrap(
        [(METADATA_VERSION, version.level), *((name, level) for name, level in sorted(levels.items()) if level > 0)],
        now_ms,
    )
    lines = []
    for directory in unformatted:
        directory_id = _new_directory_id(random)
        kind = "data directory"
        disk.make_dirs(directory)
        disk.write_atomically(f"{directory}/{BOOTSTRAP_FILE}", bootstrap)
        if directory == config.metadata_log_dir:
            kind = "metadata directory"
            if request.is_standalone:
                kind = "dynamic metadata voter directory"
                _write_first_snapshot(disk, config, directory, directory_id, now_ms)
        # Last: with it the directory counts as formatted.
        write_meta_properties(disk, directory, MetaProperties(request.cluster_id, config.node_id, directory_id))
        lines.append(f"Formatting {kind} {directory} with metadata.version {version.name}.")
    return lines or ["All of the log directories are already formatted."]


def voter_endpoint(listener: Listener) -> VoterEndpoint:
    return VoterEndpoint(name=listener.name, host=listener.host or "localhost", port=listener.port)


def _check_quorum(config: NodeConfig, request: FormatRequest) -> None:
    if not request.cluster_id:
        raise FormatError("You must specify the cluster id.")
    if request.is_standalone:
        if not config.is_controller:
            raise FormatError("You can only use --standalone on a controller.")
        if config.controller_quorum_voters:
            raise FormatError(
                "You cannot specify controller.quorum.voters and format the node with --standalone. If you want to "
                "use dynamic quorum, please remove controller.quorum.voters and specify "
                "controller.quorum.bootstrap.servers instead."
            )
    elif config.is_controller and not config.controller_quorum_voters:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify --standalone."
        )


def _effective_levels(request: FormatRequest) -> tuple[MetadataVersion, dict[str, int]]:
    version = _metadata_version(request)
    levels = default_levels(version.level)
    for name, level in request.feature_levels.items():
        if name not in SUPPORTED_FEATURES:
            known = ", ".join(sorted(name for name in SUPPORTED_FEATURES if name != METADATA_VERSION))
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {known}")
        if level not in SUPPORTED_FEATURES[name]:
            raise FormatError(f"No feature:{name} with feature level {level}")
        required = REQUIRED_METADATA_VERSION.get((name, level), 0)
        if version.level < required:
            raise FormatError(
                f"{name} could not be set to {level} because it depends on metadata.version level {required}"
            )
        levels[name] = level
    kraft_version = request.feature_levels.get(KRAFT_VERSION)
    if kraft_version is not None and (kraft_version > 0) != request.is_standalone:
        raise FormatError(f"Cannot set kraft.version to {kraft_version}: it is 1 with --standalone, and 0 without.")
    levels.pop(METADATA_VERSION)
    levels.pop(KRAFT_VERSION, None)
    return version, levels


def _metadata_version(request: FormatRequest) -> MetadataVersion:
    level = request.feature_levels.get(METADATA_VERSION)
    if level is not None and request.release is not None:
        raise FormatError("Use --release-version or --feature metadata.version, but not both.")
    if request.release is not None:
        version = metadata_version_named(request.release)
    else:
        version = metadata_version_of_level(LATEST_METADATA_VERSION if level is None else level)
    if version is None:
        first, last = METADATA_VERSIONS[0].name, METADATA_VERSIONS[-1].name
        asked = request.release if request.release is not None else level
        raise FormatError(f"Unknown metadata.version '{asked}'. Supported metadata.version are: {first} to {last}")
    return version


def _unformatted_directories(disk: Disk, config: NodeConfig, request: FormatRequest) -> list[str]:
    unformatted = []
    for directory in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        try:
            meta = read_meta_properties(disk, directory) if disk.exists(directory) else None
        except MalformedMetaProperties as error:
            raise FormatError(str(error)) from error
        if meta is None:
            unformatted.append(directory)
            continue
        if not request.ignore_formatted:
            raise FormatError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory "
                "and format the others."
            )
        if (meta.cluster_id, meta.node_id) != (request.cluster_id, config.node_id):
            raise FormatError(
                f"Log directory {directory} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
                f"{config.node_id} of cluster {request.cluster_id}"
            )
    return unformatted


def _write_first_snapshot(disk: Disk, config: NodeConfig, directory: str, directory_id: UUID, now_ms: int) -> None:
    endpoints = tuple(map(voter_endpoint, config.advertised_controller_listeners))
    quorum = standalone_quorum(config.node_id, directory_id, endpoints)
    snapshot = encode_snapshot(
        (), metadata_version=0, epoch=0, last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum.messages()
    )
    disk.make_dirs(f"{directory}/{PARTITION}")
    disk.write_atomically(f"{directory}/{PARTITION}/{FIRST_SNAPSHOT.file_name}", snapshot)


def _new_directory_id(random: Random) -> UUID:
    while True:
        directory_id = UUID(bytes=random.randbytes(16), version=4)
        # Low numbers have a meaning of their own, and a leading '-' would read as an option on a command line.
        if directory_id.int >= RESERVED_MAX and not uuid_to_text(directory_id).startswith("-"):
            return directory_id
