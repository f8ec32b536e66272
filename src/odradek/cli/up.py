"""`odradek up`: set up and run a cluster on this machine: configure, format, start and supervise its nodes.

Imports little before the nodes are started, to start them as early as possible.
"""

import asyncio
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from odradek.cli.console_process import DEFAULT_PORT as CONSOLE_PORT
from odradek.cli.console_process import MISSING, ConsoleProcess, check_console_port, is_installed
from odradek.cli.options import DEFAULT_BOOTSTRAP, LogFormat, LogFormatOption
from odradek.client.address import DEFAULT_PORT, Address
from odradek.client.errors import NotYet
from odradek.config.node_config import NodeConfig
from odradek.local.cores import count_usable_cores
from odradek.local.interpreter import REPORTED_BY_PARENT, find_interpreter_warning
from odradek.local.node_files import NodeFiles
from odradek.local.node_setup import are_formatted, cluster_of, existing_nodes, is_secure, plan_nodes
from odradek.local.ports import check_ports
from odradek.local.security_files import SecurityFiles
from odradek.local.start_node import load_config, parse_config
from odradek.local.supervisor import NodeExited, Supervisor
from odradek.local.topology import BrokerCount, Topology
from odradek.text.errors import UserError
from odradek.text.terminal import say

READY_TIMEOUT_S = 30.0
AUTO = "auto"


def parse_broker_count(text: str) -> BrokerCount:
    """Raises typer.BadParameter."""
    if text == AUTO:
        return BrokerCount(count_usable_cores(), is_minimum=True)
    if not text.isdecimal() or int(text) == 0:
        raise typer.BadParameter(f"{text!r} is not a number of brokers: give 1 or more, or {AUTO!r}.")
    return BrokerCount(int(text))


def command(
    brokers: Annotated[
        BrokerCount | None,
        typer.Option(
            "--brokers",
            parser=parse_broker_count,
            metavar="COUNT",
            help="Number of brokers; auto: one per processor core. Default: 1, or as many as the cluster has.",
        ),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            "--controllers", min=1, help="Number of dedicated controllers. Three of them tolerate one failure."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1,
            max=65534,
            help="Port of the first broker; others use the next ports. "
            f"Default: {DEFAULT_PORT}, or the port of the existing cluster.",
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Directory for configuration, data and logs.")
    ] = Path("odradek-data"),
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="TLS, authentication and ACLs: creates certificates, an admin user and client.properties.",
        ),
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the existing cluster and create a new one.")] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Start the web console if it is installed.")
    ] = True,
    console_port: Annotated[
        int | None,
        typer.Option(
            "--console-port",
            min=0,
            max=65535,
            help=f"Port of the web console. Default: {CONSOLE_PORT}, or a free port if it is in use.",
        ),
    ] = None,
) -> None:
    """Run a cluster on this machine until Ctrl-C or SIGTERM.

    Without --controllers, the first broker is also a controller; with three or more brokers, the first three are.
    """
    data_dir = Path(os.path.abspath(data_dir))
    starts_console = console and is_installed()
    if starts_console:
        check_console_port(console_port)
    try:
        configs = set_up(data_dir, brokers, controllers, port, fresh=fresh, secure=secure)
    except OSError as error:
        # The error of a write to a full disk has no file name.
        error.filename = error.filename or str(data_dir)
        raise
    if (warning := find_interpreter_warning()) is not None:
        say(f"warning: {warning}")
    # The nodes would repeat it.
    os.environ[REPORTED_BY_PARENT] = "1"
    bootstrap = [broker_address(config) for config in configs.values() if config.is_broker]
    ids = {config.node_id for config in configs.values() if config.is_broker}
    security = SecurityFiles(data_dir) if secure else None
    supervisor = Supervisor(
        [NodeFiles(data_dir, number) for number in configs],
        # Brokers need the controllers for a controlled shutdown, so pure brokers stop first.
        stop_first={number for number, config in configs.items() if not config.is_controller},
        wait_until_serving=lambda: wait_for_brokers(bootstrap, ids, security),
        on_ready=lambda: _print_ready(bootstrap, security, lacks_console=console and not starts_console),
        while_starting=_import_client,
        run_alongside=ConsoleProcess(data_dir, bootstrap, console_port, security=security).run
        if starts_console
        else None,
        options=() if log_format is LogFormat.TEXT else ("--log-format", log_format),
    )
    try:
        asyncio.run(supervisor.run())
    except NodeExited as error:
        raise UserError(str(error)) from None


def set_up(
    data_dir: Path,
    brokers: BrokerCount | None,
    controllers: int | None,
    port: int | None,
    *,
    fresh: bool,
    secure: bool = False,
) -> dict[int, NodeConfig]:
    """Write the configuration of each node and format its directories, ready to start the processes."""
    security = SecurityFiles(data_dir)
    existing = existing_nodes(data_dir)
    for files in existing.values():
        files.check_is_free()
    if fresh:
        for files in existing.values():
            shutil.rmtree(files.directory)
        security.delete()
        existing.clear()
    old = {number: load_config(str(files.properties)) for number, files in existing.items()}
    if old:
        _check_security(data_dir, secure, was_secure=is_secure(old))
        old_topology = Topology({number: config.process_roles for number, config in old.items()})
        topology = old_topology.grow(brokers, controllers)
    else:
        topology = Topology.new(1 if brokers is None else brokers.number, controllers)
    nodes = {number: NodeFiles(data_dir, number) for number in topology.roles}
    for files in nodes.values():
        files.check_is_ours()
    data_dir.mkdir(parents=True, exist_ok=True)
    texts = plan_nodes(data_dir, old, topology, port, security if secure else None)
    configs = {number: parse_config(text, str(nodes[number].properties)) for number, text in texts.items()}
    for config in configs.values():
        check_ports(config)
    if secure:
        security.prepare(tuple(configs), is_new=not old)
    for number, text in texts.items():
        nodes[number].write_properties(text, is_private=secure)
    cluster_of(configs)
    if not are_formatted(configs):
        from odradek.local.node_format import format_nodes

        format_nodes(configs, administrator=security.administrator() if secure else None)
    return configs


def _check_security(data_dir: Path, secure: bool, *, was_secure: bool) -> None:
    if secure == was_secure:
        return
    problem, advice = (
        ("was created without --secure", "Remove --secure") if secure else ("was created with --secure", "Add --secure")
    )
    raise UserError(
        f"The cluster in {str(data_dir)!r} {problem}. {advice}, choose another --data-dir, or use --fresh to delete "
        "the cluster."
    )


def broker_address(config: NodeConfig) -> Address:
    """Return the address that the broker advertises to clients."""
    first = config.advertised_listeners[0]
    return Address(first.host or socket.gethostname(), first.port)


def wait_for_brokers(bootstrap: list[Address], ids: set[int], security: SecurityFiles | None = None) -> None:
    """Wait until the Metadata response of every broker contains all brokers."""
    from odradek.client.cluster import Cluster
    from odradek.client.security import NOTHING

    def check() -> None:
        missing = ids - cluster.layout().brokers.keys()
        if missing:
            raise NotYet(f"brokers {sorted(missing)} are not online yet")

    credentials = NOTHING if security is None else security.client_security()
    for address in bootstrap:
        with Cluster([address], timeout_s=READY_TIMEOUT_S, security=credentials) as cluster:
            cluster.retry("waiting for the brokers", check)


def _import_client() -> None:
    import odradek.client.cluster  # noqa: F401


def _print_ready(bootstrap: list[Address], security: SecurityFiles | None, *, lacks_console: bool) -> None:
    addresses = ",".join(map(str, bootstrap))
    program = _program()
    option = "" if str(bootstrap[0]) == DEFAULT_BOOTSTRAP else f" -b {bootstrap[0]}"
    if security is not None:
        option += security.command_option()
    print(f"ready bootstrap={addresses}", flush=True)
    print("Next, in another terminal:")
    print(f"  {program} topic create greetings{option}")
    print(f"  {program} produce greetings hello{option}")
    print(f"  {program} consume greetings -n 1{option}", flush=True)
    if lacks_console:
        print(MISSING, flush=True)


def _program() -> str:
    """Return the command that runs this program from the current directory."""
    script = Path(sys.argv[0])
    if script.name != "odradek":
        return f"{sys.executable} -m odradek"
    found = shutil.which("odradek")
    if found is not None and Path(found).resolve() == script.resolve():
        return "odradek"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)
