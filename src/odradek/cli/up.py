"""`odradek up`: a cluster on this machine, from nothing: configuration, format, processes, and their supervision."""

import asyncio
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.errors import UserError
from odradek.cli.format import format_node
from odradek.cli.node_files import HOST, NodeFiles, escape_path, new_properties, with_values
from odradek.cli.options import DEFAULT_BOOTSTRAP
from odradek.cli.random_uuid import random_cluster_id
from odradek.cli.start_node import load_config
from odradek.cli.supervise import NodeEnded, Supervisor
from odradek.client.address import DEFAULT_PORT, Address
from odradek.client.cluster import Cluster
from odradek.config.node_config import NodeConfig
from odradek.host.disk import HostDisk
from odradek.log.meta_properties import MalformedMetaProperties, read_meta_properties
from odradek.node.format import FormatRequest

READY_TIMEOUT_S = 30.0


def command(
    brokers: Annotated[int, typer.Option("--brokers", min=1, help="How many nodes.")] = 1,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65534, help=f"Of the first broker, {DEFAULT_PORT} at first; others follow."),
    ] = None,
    data_dir: Annotated[Path, typer.Option("--data-dir", metavar="DIR", help="Where everything is kept.")] = Path(
        "odradek-data"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what is there, and begin anew.")] = False,
) -> None:
    """Start a cluster on this machine and keep watch over it, until Ctrl-C or SIGTERM."""
    if brokers > 1:
        raise UserError(f"--brokers {brokers}: a cluster of several nodes is not there yet; leave it at 1")
    data_dir = Path(os.path.abspath(data_dir))
    nodes = [NodeFiles(data_dir, number) for number in range(1, brokers + 1)]
    for files in nodes:
        files.check_is_ours()
        files.check_is_free()
        if fresh and files.directory.exists():
            shutil.rmtree(files.directory)
    try:
        configs = [prepare(files, port, brokers) for files in nodes]
        for config in configs:
            check_ports(config)
        format_new_nodes(configs)
    except OSError as error:
        # A write that fails for want of space does not say to which file.
        error.filename = error.filename or str(data_dir)
        raise
    bootstrap = [broker_address(config) for config in configs]
    supervisor = Supervisor(
        nodes,
        serves=lambda: wait_for_brokers(bootstrap, {config.node_id for config in configs}),
        on_ready=lambda: _print_ready(bootstrap),
    )
    try:
        asyncio.run(supervisor.run())
    except NodeEnded as error:
        raise UserError(str(error)) from None


def prepare(files: NodeFiles, port: int | None, brokers: int) -> NodeConfig:
    """Writes the node's server.properties, or mends an old one, and reads it as the node will."""
    files.data.mkdir(parents=True, exist_ok=True)
    old = files.properties.read_text(encoding="utf-8", errors="replace") if files.properties.exists() else None
    values = {"log.dirs": escape_path(files.data)}
    if old is None:
        text = new_properties(
            files.node_id,
            _voters(port or DEFAULT_PORT, brokers),
            _addresses(files, port or DEFAULT_PORT, brokers),
            brokers,
        )
    else:
        text = old
        if port is not None and broker_address(load_config(str(files.properties))).port != port + files.node_id - 1:
            values |= {**_addresses(files, port, brokers), "controller.quorum.voters": _voters(port, brokers)}
    text = with_values(text, values)
    if text != old:
        files.properties.write_text(text, encoding="utf-8")
    return load_config(str(files.properties))


def _addresses(files: NodeFiles, port: int, brokers: int) -> dict[str, str]:
    """Brokers have the first ports, controllers those behind them."""
    client = f"PLAINTEXT://{HOST}:{port + files.node_id - 1}"
    controller = f"CONTROLLER://{HOST}:{port + brokers + files.node_id - 1}"
    return {"listeners": f"{client},{controller}", "advertised.listeners": client}


def _voters(port: int, brokers: int) -> str:
    return ",".join(f"{number}@{HOST}:{port + brokers + number - 1}" for number in range(1, brokers + 1))


def broker_address(config: NodeConfig) -> Address:
    """Where clients are told to go."""
    first = config.advertised_listeners[0]
    return Address(first.host or socket.gethostname(), first.port)


def check_ports(config: NodeConfig) -> None:
    """Tries every address for a moment: a node that cannot listen would say so only in its log."""
    for listener in config.listeners:
        host = listener.host or None
        try:
            found = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            with socket.socket(found[0], found[1], found[2]) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(found[4])
        except socket.gaierror:
            raise UserError(f"{listener}: the host name is not known here: mend listeners") from None
        except PermissionError:
            raise UserError(f"port {listener.port} is only for root: choose a --port above 1023") from None
        except OSError as error:
            raise UserError(f"port {listener.port} is taken ({error.strerror}): choose another --port") from None


def format_new_nodes(configs: list[NodeConfig]) -> None:
    """All nodes belong to the cluster of those that have been there before, or to a new one."""
    found: dict[str, str] = {}
    for config in configs:
        for directory in config.log_dirs:
            try:
                meta = read_meta_properties(HostDisk(), directory)
            except MalformedMetaProperties as error:
                raise UserError(f"{error}; --fresh deletes everything and begins anew") from None
            if meta is None:
                continue
            if meta.node_id != config.node_id:
                raise UserError(
                    f"{directory!r} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
                    f"{config.node_id}: choose another --data-dir, or --fresh to delete it"
                )
            found[meta.cluster_id] = directory
    if len(found) > 1:
        raise UserError(
            f"{' and '.join(map(repr, found.values()))} belong to different clusters: choose another --data-dir"
        )
    cluster_id = next(iter(found), None) or random_cluster_id()
    for config in configs:
        format_node(config, FormatRequest(cluster_id=cluster_id, ignore_formatted=True))


def wait_for_brokers(bootstrap: list[Address], ids: set[int]) -> None:
    """Returns once Metadata names every broker."""

    def ask() -> None:
        missing = ids - cluster.layout().brokers.keys()
        if missing:
            raise KafkaError(ErrorCode.broker_not_available, f"brokers {sorted(missing)} are not there")

    with Cluster(bootstrap, timeout_s=READY_TIMEOUT_S) as cluster:
        cluster.retry("waiting for the brokers", ask)


def _print_ready(bootstrap: list[Address]) -> None:
    addresses = ",".join(map(str, bootstrap))
    program = _program()
    option = "" if addresses == DEFAULT_BOOTSTRAP else f" -b {addresses}"
    print(f"ready bootstrap={addresses}", flush=True)
    print("Try next, in another terminal:")
    print(f"  {program} topic create greetings{option}")
    print(f"  {program} produce greetings hello{option}")
    print(f"  {program} consume greetings{option}", flush=True)


def _program() -> str:
    """How to call this program again from here."""
    script = Path(sys.argv[0])
    if script.name != "odradek":
        return f"{sys.executable} -m odradek"
    found = shutil.which("odradek")
    if found is not None and Path(found).resolve() == script.resolve():
        return "odradek"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)
