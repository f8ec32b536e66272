"""Formats the nodes of one machine. Separate from `node_setup` because most starts find everything formatted."""

import shutil
import time
from pathlib import Path
from random import SystemRandom
from uuid import uuid4

from odradek.base.ids import uuid_to_text
from odradek.client.security import Sasl
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.metadata.snapshot import BOOTSTRAP_FILE
from odradek.core.security.scram_credentials import (
    ITERATIONS_MIN,
    SALT_BYTES,
    credential_of,
    find_mechanism_named,
    salted_password,
)
from odradek.host.disk import HostDisk
from odradek.local.node_setup import Configs, cluster_of, meta_of
from odradek.quorum.format import (
    FIRST_SNAPSHOT,
    METADATA_DIRECTORY,
    FormatError,
    FormatRequest,
    format_directories,
    new_directory_id,
)
from odradek.quorum.initial_controllers import InitialController
from odradek.storage.log.meta_properties import META_PROPERTIES
from odradek.text.errors import UserError


def format_node(config: NodeConfig, request: FormatRequest) -> list[str]:
    """Format the node's directories on this machine and return a line for each."""
    try:
        return format_directories(
            HostDisk(), config, request, random=SystemRandom(), now_ms=time.time_ns() // 1_000_000
        )
    except FormatError as error:
        raise UserError(str(error)) from None


def random_cluster_id() -> str:
    """Generate an ID without a leading dash, which a command line would take for an option; Kafka does the same."""
    while (text := uuid_to_text(uuid4())).startswith("-"):
        pass
    return text


def format_nodes(configs: Configs, *, administrator: Sasl | None = None) -> None:
    """Format all nodes for the cluster that some of them already belong to, or for a new cluster.

    The metadata of a new cluster starts with the administrator as a SCRAM user.
    """
    cluster_id = cluster_of(configs) or random_cluster_id()
    credentials = () if administrator is None else (_credential(administrator),)
    voters = {
        number: config
        for number, config in configs.items()
        if config.is_controller and not config.controller_quorum_voters
    }
    first_voters: tuple[InitialController, ...] = ()
    if any(meta_of(config, config.metadata_log_dir) is None for config in voters.values()):
        _undo_interrupted_format(voters)
        first_voters = tuple(_first_voter(config) for config in voters.values())
    for number, config in configs.items():
        format_node(
            config,
            FormatRequest(
                cluster_id=cluster_id,
                initial_controllers=first_voters if number in voters else (),
                joins_later=not config.controller_quorum_voters and not (first_voters and number in voters),
                scram_credentials=credentials,
                ignore_formatted=True,
            ),
        )


def _credential(user: Sasl) -> UserScramCredentialRecord:
    mechanism = find_mechanism_named(user.mechanism)
    if mechanism is None:
        raise UserError(f"The administrator's mechanism {user.mechanism} is not SCRAM. Restore client.properties.")
    salt = SystemRandom().randbytes(SALT_BYTES)
    salted = salted_password(mechanism, user.password, salt, ITERATIONS_MIN)
    credential = credential_of(mechanism, salted, salt=salt, iterations=ITERATIONS_MIN)
    return UserScramCredentialRecord(
        name=user.username,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _first_voter(config: NodeConfig) -> InitialController:
    listener = config.advertised_controller_listeners[0]
    return InitialController(
        config.node_id, listener.host or "localhost", listener.port, new_directory_id(SystemRandom())
    )


def _undo_interrupted_format(voters: Configs) -> None:
    """Remove the directories of an interrupted format.

    The initial voters are formatted together, because each stores the directory IDs of all. If a voter lost its
    directory after the quorum had started, a new directory cannot replace it.
    """
    formatted = [config for config in voters.values() if meta_of(config, config.metadata_log_dir) is not None]
    if any(not _was_never_started(Path(config.metadata_log_dir)) for config in formatted):
        missing = next(config for config in voters.values() if config not in formatted)
        raise UserError(
            f"Node {missing.node_id} is a voter of the quorum, but {missing.metadata_log_dir!r} is missing its files. "
            "Restore them, or use --fresh to delete the cluster and create a new one."
        )
    for config in formatted:
        shutil.rmtree(config.metadata_log_dir)


def _was_never_started(directory: Path) -> bool:
    names = {path.name for path in directory.iterdir()} - {META_PROPERTIES, BOOTSTRAP_FILE, ".lock"}
    inside = {path.name for path in directory.glob(f"{METADATA_DIRECTORY}/*")}
    return names <= {METADATA_DIRECTORY} and inside <= {FIRST_SNAPSHOT.file_name}
