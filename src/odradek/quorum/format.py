"""Formatting: writes the files that make empty directories the log dirs of one node of one cluster.

Each gets `meta.properties` and `bootstrap.checkpoint`; the metadata log's dir, for a quorum whose voters may change
later, also a first snapshot that names the first of them. What is written is what Apache Kafka's own tool writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from odradek.base.ids import METADATA_TOPIC, uuid_to_text
from odradek.base.ports import Disk, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.directories import RESERVED_MAX
from odradek.core.metadata.features import (
    IV_3_5_SCRAM,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    REQUIRED_METADATA_VERSION,
    SUPPORTED_FEATURES,
    MetadataVersion,
    default_levels,
    find_metadata_version,
    metadata_version_of_level,
)
from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.metadata.snapshot import BOOTSTRAP_FILE, SnapshotId, encode_bootstrap, encode_snapshot
from odradek.core.raft.voters import SUPPORTED_KRAFT_VERSIONS, Quorum
from odradek.quorum.initial_controllers import InitialController
from odradek.records.control import VoterEndpoint, VoterRegistration
from odradek.storage.log.meta_properties import (
    MalformedMetaProperties,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"
FIRST_SNAPSHOT = SnapshotId(0, 0)


class FormatError(Exception):
    """The directories cannot be formatted; the message states what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    cluster_id: str
    is_standalone: bool = False
    """The quorum starts with this node as its only voter; others may be added later."""
    initial_controllers: tuple[InitialController, ...] = ()
    """The quorum starts with these voters; all of them are formatted with the same value."""
    joins_later: bool = False
    """The quorum exists: this node joins it as an observer, and may be added as a voter."""
    release: str | None = None
    """`4.3`, `4.3-IV0`: the metadata version to start with, by name. None: the latest."""
    feature_levels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Levels that differ from the defaults of the release."""
    scram_credentials: tuple[UserScramCredentialRecord, ...] = ()
    """Credentials with which the cluster starts, so that brokers can authenticate by SCRAM from the beginning."""
    ignore_formatted: bool = False


def format_directories(
    disk: Disk, config: NodeConfig, request: FormatRequest, *, random: Random, now_ms: int
) -> list[str]:
    """Formats the unformatted directories; returns a line for each. Raises FormatError or OSError."""
    _check_quorum(config, request)
    version, levels = _effective_levels(config, request)
    if request.scram_credentials and version.level < IV_3_5_SCRAM:
        raise FormatError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    unformatted = _unformatted_directories(disk, config, request)
    bootstrap = encode_bootstrap(
        [(METADATA_VERSION, version.level), *((name, level) for name, level in sorted(levels.items()) if level > 0)],
        now_ms,
        request.scram_credentials,
    )
    lines = []
    for directory in unformatted:
        kind, directory_id, voters = _part_of(directory, config, request, new_directory_id(random))
        disk.make_dirs(directory)
        disk.write_atomically(f"{directory}/{BOOTSTRAP_FILE}", bootstrap)
        if voters:
            _write_first_snapshot(disk, directory, config.controller_listener_names[0], voters, now_ms)
        # Last: this file marks the directory as formatted.
        write_meta_properties(disk, directory, MetaProperties(request.cluster_id, config.node_id, directory_id))
        lines.append(f"Formatting {kind} {directory} with metadata.version {version.name}.")
    return lines or ["All of the log directories are already formatted."]


def voter_endpoint(listener: Listener) -> VoterEndpoint:
    return VoterEndpoint(name=listener.name, host=listener.host or "localhost", port=listener.port)


def _check_quorum(config: NodeConfig, request: FormatRequest) -> None:
    if not request.cluster_id:
        raise FormatError("You must specify the cluster id.")
    if config.controller_quorum_voters:
        if request.is_standalone or request.initial_controllers:
            raise FormatError(
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
                "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
                "controller.quorum.bootstrap.servers instead."
            )
    elif request.is_standalone and not config.is_controller:
        raise FormatError("You can only use --standalone on a controller.")
    elif config.is_controller and not _has_dynamic_quorum(config, request):
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )


def _has_dynamic_quorum(config: NodeConfig, request: FormatRequest) -> bool:
    """Whether the voters are in the metadata log, and not in the configuration."""
    return not config.controller_quorum_voters and (
        request.is_standalone or bool(request.initial_controllers) or request.joins_later
    )


def _part_of(
    directory: str, config: NodeConfig, request: FormatRequest, new_id: UUID
) -> tuple[str, UUID, tuple[InitialController, ...]]:
    """The directory's purpose and ID, and the first voters if it is the metadata log dir."""
    if directory != config.metadata_log_dir:
        return "data directory", new_id, ()
    voters = request.initial_controllers
    if request.is_standalone:
        listener = config.advertised_controller_listeners[0]
        voters = (InitialController(config.node_id, listener.host or "localhost", listener.port, new_id),)
    if not voters:
        return "metadata directory", new_id, ()
    for voter in voters:
        if voter.node_id == config.node_id:
            return "dynamic metadata voter directory", voter.directory_id, voters
    return "dynamic metadata directory", new_id, voters


def _effective_levels(config: NodeConfig, request: FormatRequest) -> tuple[MetadataVersion, dict[str, int]]:
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
    _check_kraft_version(config, request)
    levels.pop(METADATA_VERSION)
    levels.pop(KRAFT_VERSION, None)
    return version, levels


def _check_kraft_version(config: NodeConfig, request: FormatRequest) -> None:
    level = request.feature_levels.get(KRAFT_VERSION)
    is_dynamic = _has_dynamic_quorum(config, request)
    if level is None or (level > 0) == is_dynamic:
        return
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used."
    if is_dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {level} if controller.quorum.voters is empty and {flags} For dynamic "
            "controllers support, try removing the --feature flag for kraft.version."
        )
    raise FormatError(
        f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and {flags} For dynamic "
        "controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and "
        "removing controller.quorum.voters."
    )


def _metadata_version(request: FormatRequest) -> MetadataVersion:
    level = request.feature_levels.get(METADATA_VERSION)
    if level is not None and request.release is not None:
        raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    if request.release is not None:
        version = find_metadata_version(request.release)
        if version is None:
            known = ", ".join(one.name for one in METADATA_VERSIONS)
            raise FormatError(f"Unknown metadata.version '{request.release}'. Supported metadata.version are: {known}")
        return version
    level = LATEST_METADATA_VERSION if level is None else level
    version = metadata_version_of_level(level)
    if version is None:
        first, last = METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level
        raise FormatError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from {first} to {last}."
        )
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


def _write_first_snapshot(
    disk: Disk, directory: str, listener_name: str, voters: tuple[InitialController, ...], now_ms: int
) -> None:
    registrations = tuple(
        VoterRegistration(
            voter_id=voter.node_id,
            voter_directory_id=voter.directory_id,
            endpoints=(VoterEndpoint(name=listener_name, host=voter.host, port=voter.port),),
            kraft_version_feature=SUPPORTED_KRAFT_VERSIONS,
        )
        for voter in voters
    )
    quorum = Quorum(kraft_version=1, voters=registrations)
    snapshot = encode_snapshot(
        (), metadata_version=0, epoch=0, last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum.messages()
    )
    disk.make_dirs(f"{directory}/{METADATA_DIRECTORY}")
    disk.write_atomically(f"{directory}/{METADATA_DIRECTORY}/{FIRST_SNAPSHOT.file_name}", snapshot)


def new_directory_id(random: Random) -> UUID:
    """Also for a directory whose ID must be known before it is formatted."""
    while True:
        directory_id = UUID(bytes=random.randbytes(16), version=4)
        # Low numbers are reserved, and a leading '-' would look like a command-line option.
        if directory_id.int >= RESERVED_MAX and not uuid_to_text(directory_id).startswith("-"):
            return directory_id
