"""`odradek user`: list, add, remove and test SCRAM users."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Timeout,
    open_cluster,
    parse_choices,
    read_security,
)
from odradek.cli.passwords import PasswordFile, read_password
from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.scram_users import ScramUser, ScramUsers
from odradek.client.security import Sasl
from odradek.core.security.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from odradek.text.errors import UserError, as_sentence, nearest
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import is_terminal, say

app = typer.Typer(help="List, add, remove and test SCRAM users.", no_args_is_help=True)

MECHANISMS = tuple(mechanism.text for mechanism in ScramMechanism)
DEFAULT_MECHANISM = ScramMechanism.SHA_512.text

Name = Annotated[str, typer.Argument(metavar="USER", show_default=False, help="User name.")]
Mechanism = Annotated[str, typer.Option("--mechanism", metavar="MECHANISM", help="SCRAM-SHA-256 or SCRAM-SHA-512.")]


@app.command("list")
def list_users(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[USER…]", show_default=False, help="User names. Default: all users.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List users with their mechanisms and iterations. Passwords and keys are never shown."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        found = ScramUsers(cluster).list(names or None)
        for name in names or ():
            _find(cluster, name, found)
    rows = [(user.name, mechanism, count) for user in found for mechanism, count in sorted(user.iterations.items())]
    if format is OutputFormat.JSON:
        print_json([{"user": name, "mechanism": mechanism, "iterations": count} for name, mechanism, count in rows])
    elif rows:
        print_table(("user", "mechanism", "iterations"), rows)
    else:
        say("No SCRAM users exist yet. `odradek user add` creates one.")


@app.command()
def add(
    name: Name,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    password_file: PasswordFile = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            min=ITERATIONS_MIN,
            max=ITERATIONS_MAX,
            metavar="COUNT",
            help=f"Iterations of the password hash, {ITERATIONS_MIN} to {ITERATIONS_MAX}. More of them make guessing "
            "the password and each login slower.",
        ),
    ] = ITERATIONS_MIN,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Create a user, or change the user's password."""
    selected = _mechanism(mechanism)
    if not name:
        raise UserError("The user name is empty. Specify a user name.")
    password = read_password(password_file, confirm=True)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        users = ScramUsers(cluster)
        existed = any(selected.text in user.iterations for user in users.list([name]))
        users.put(name, selected, password, iterations=iterations)
    say(f"{'Changed the password of' if existed else 'Added'} user {name} for {selected.text}.")


@app.command()
def remove(
    name: Name,
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="MECHANISM", help="Only for this mechanism. Default: for all."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove a user. Connections that have authenticated stay open."""
    selected = None if mechanism is None else _mechanism(mechanism)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        users = ScramUsers(cluster)
        user = _find(cluster, name, users.list([name]))
        existing = [one for one in ScramMechanism if one.text in user.iterations]
        if selected is not None and selected not in existing:
            only = ", ".join(one.text for one in existing)
            raise UserError(f"User {name!r} has no credential for {selected.text}, only for {only}.")
        removed = existing if selected is None else [selected]
        what = f"user {name} for {', '.join(one.text for one in removed)}"
        if not yes and is_terminal(sys.stdin):
            typer.confirm(f"Remove {what}?", abort=True, err=True)
        # One change of a user per request.
        for one in removed:
            users.delete(name, one)
    say(f"Removed {what}.")


@app.command()
def test(
    name: Name,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Log in as a user, to test the password. --bootstrap must be the address of a SASL listener.

    Of the --command-config file, only the TLS settings are used.
    """
    selected = _mechanism(mechanism)
    security = read_security(command_config)
    password = read_password(password_file, confirm=False)
    sasl = Sasl(mechanism=selected.text, username=name, password=password)
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UserError(f"--bootstrap: {error}") from None
    with Cluster(addresses, timeout_s=timeout, security=replace(security, sasl=sasl)) as cluster:
        try:
            brokers = len(cluster.layout().brokers)
        except NotAuthenticated as error:
            raise UserError(f"{as_sentence(str(error))} Check the user name, the password and --mechanism.") from None
    assert brokers >= 0
    say(f"User {name} authenticated with {selected.text}.")


def _mechanism(text: str) -> ScramMechanism:
    selected = parse_choices(text, MECHANISMS, "--mechanism")
    if len(selected) != 1:
        raise UserError(f"--mechanism: specify one of {', '.join(MECHANISMS)}.")
    return next(one for one in ScramMechanism if one.text == selected[0])


def _find(cluster: Cluster, name: str, found: list[ScramUser]) -> ScramUser:
    for user in found:
        if user.name == name:
            return user
    suggestion = nearest(name, [user.name for user in ScramUsers(cluster).list()])
    if suggestion is not None:
        raise UserError(f"User {name!r} does not exist. Did you mean {suggestion!r}?")
    raise UserError(f"User {name!r} does not exist. `odradek user list` shows all users.")
