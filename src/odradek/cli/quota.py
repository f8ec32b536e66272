"""`odradek quota`: list, set and remove the quotas of users, client IDs and IP addresses."""

from typing import Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Timeout,
    open_cluster,
    parse_assignments,
)
from odradek.client.quotas import DEFAULT, Quota, QuotaEntity, Quotas
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say

app = typer.Typer(help="List, set and remove client quotas.", no_args_is_help=True)

User = Annotated[
    str | None, typer.Option("--user", "-u", metavar="NAME", show_default=False, help="The user's name, without type.")
]
ClientId = Annotated[
    str | None,
    typer.Option("--client-id", "--client", "-c", metavar="ID", show_default=False, help="Client ID."),
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", show_default=False, help="IP address or host name.")]
UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="All users without a quota of their own.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="All client IDs without a quota of their own.")]
IpDefaults = Annotated[bool, typer.Option("--ip-defaults", help="All addresses without a quota of their own.")]

_DEFAULT_NAME = "<default>"
# By entity type: how messages name one, and all that have no quota of their own.
_LABELS = {
    "user": ("user", "all other users"),
    "client-id": ("client ID", "all other client IDs"),
    "ip": ("address", "all other addresses"),
}


@app.command("list")
def list_quotas(
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List client quotas: all, or those with the given user, client ID or address."""
    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        found = Quotas(cluster).list(entity)
    if format is OutputFormat.JSON:
        print_json([{"entity": dict(quota.entity), "limits": dict(quota.limits)} for quota in found])
    elif found:
        rows = [(*_names(quota), key, _number(limit)) for quota in found for key, limit in sorted(quota.limits.items())]
        print_table(("user", "client id", "ip", "quota", "limit"), rows)
    else:
        say("No matching client quotas." if entity else "No client quotas are set.")


@app.command("set")
def set_quotas(
    limits: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE…",
            show_default=False,
            help="Limits per broker: producer_byte_rate and consumer_byte_rate in bytes per second, request_percentage "
            "of the event loop's time, controller_mutation_rate in partitions per second; for an address, "
            "connection_creation_rate per second.",
        ),
    ],
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Set limits of a user, a client ID, both together, or an address."""
    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    _check_given(entity)
    parsed = {key: _parse_number(key, text) for key, text in parse_assignments(limits, "Quota").items()}
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        Quotas(cluster).change(entity, parsed)
    say(f"Updated the quotas of {_describe(entity)}.")


@app.command()
def remove(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY…]", show_default=False, help="Limits to remove. Default: all of them."),
    ] = None,
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove limits of a user, a client ID, both together, or an address."""
    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    _check_given(entity)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        quotas = Quotas(cluster)
        existing = {key for quota in quotas.list(entity, exactly=True) for key in quota.limits}
        missing = [key for key in keys or () if key not in existing]
        if missing:
            raise UserError(f"No quota {', '.join(missing)} of {_describe(entity)}.")
        if not existing:
            raise UserError(f"No quotas of {_describe(entity)}.")
        quotas.change(entity, dict.fromkeys(keys or sorted(existing)))
    say(f"Removed quotas of {_describe(entity)}.")


def _entity(
    user: str | None,
    user_defaults: bool,
    client_id: str | None,
    client_defaults: bool,
    ip: str | None,
    ip_defaults: bool,
) -> dict[str, str | None]:
    entity: dict[str, str | None] = {}
    for kind, option, name, is_default in (
        ("user", "--user", user, user_defaults),
        ("client-id", "--client", client_id, client_defaults),
        ("ip", "--ip", ip, ip_defaults),
    ):
        if name is not None and is_default:
            raise UserError(f"Specify either {option} or {option}-defaults, not both.")
        if name is not None or is_default:
            entity[kind] = DEFAULT if is_default else name
    if "ip" in entity and len(entity) > 1:
        raise UserError("Quotas of addresses cannot be combined with users and client IDs.")
    return entity


def _check_given(entity: QuotaEntity) -> None:
    if not entity:
        raise UserError("Specify --user, --client-id or --ip, or their defaults with --user-defaults and the like.")


def _parse_number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"Quota {key}: {text!r} is not a number.") from None


def _names(quota: Quota) -> list[str | None]:
    entity = quota.entity
    return [_DEFAULT_NAME if kind in entity and entity[kind] is DEFAULT else entity.get(kind) for kind in _LABELS]


def _describe(entity: QuotaEntity) -> str:
    return " with ".join(
        others if entity[kind] is DEFAULT else f"{one} {entity[kind]}"
        for kind, (one, others) in _LABELS.items()
        if kind in entity
    )


def _number(limit: float) -> str:
    return str(int(limit)) if limit.is_integer() else str(limit)
