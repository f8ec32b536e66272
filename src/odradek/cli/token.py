"""`odradek token`: create, renew, expire and list delegation tokens."""

from base64 import b64encode
from typing import Annotated, Any

import typer

from odradek.base.principal import Principal
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.cluster import Cluster
from odradek.client.delegation_tokens import (
    AT_ONCE,
    DEFAULT_PERIOD,
    DelegationTokens,
    OwnerNotSupported,
    TokenDescription,
)
from odradek.core.security.delegation_tokens import INT64_MAX
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say
from odradek.text.times import format_time, parse_duration_ms

app = typer.Typer(help="Create, renew, expire and list delegation tokens.", no_args_is_help=True)

TokenId = Annotated[str, typer.Argument(metavar="TOKEN_ID", show_default=False, help="Token ID.")]


@app.command()
def create(
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", metavar="PRINCIPAL", help="Owner of the token, such as User:alice. Default: the logged-in user."
        ),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="PRINCIPAL", help="Principal that may renew and expire the token. Repeatable."
        ),
    ] = None,
    max_lifetime: Annotated[
        str | None,
        typer.Option("--max-lifetime", metavar="DURATION", help="Maximum lifetime: PT12H, P7D. Default: the brokers'."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Create a delegation token and print it with its HMAC, which is secret.

    Clients log in with SCRAM: the token ID is the user name, the HMAC is the password, and tokenauth is true.
    """
    owner_principal = None if owner is None else _principal(owner, "--owner")
    renewers = [_principal(one, "--renewer") for one in renewer or ()]
    lifetime_ms = DEFAULT_PERIOD if max_lifetime is None else _positive(max_lifetime, "--max-lifetime")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        try:
            token = DelegationTokens(cluster).create(owner=owner_principal, renewers=renewers, lifetime_ms=lifetime_ms)
        except OwnerNotSupported:
            raise UserError("The broker does not support --owner: it is too old. Log in as the owner.") from None
    if format is OutputFormat.JSON:
        print_json(_as_json(token, shows_hmac=True))
        return
    rows = [(name.replace("_", " "), value) for name, value in _cells(token, shows_hmac=True).items()]
    print_table(("field", "value"), rows)


@app.command()
def renew(
    token_id: TokenId,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", metavar="DURATION", help="Time until the token expires: PT12H. Default: the brokers'."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Renew a delegation token. Its owner and its renewers may do that."""
    period_ms = DEFAULT_PERIOD if period is None else _positive(period, "--period")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        expires_ms = DelegationTokens(cluster).renew(_find(cluster, token_id).hmac, period_ms=period_ms)
    say(f"Renewed token {token_id}. It expires at {format_time(expires_ms)}.")


@app.command()
def expire(
    token_id: TokenId,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="DURATION", help="Let it expire after this time: PT1H. Default: remove it now."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove a delegation token, or let it expire earlier. Its owner and its renewers may do that."""
    period_ms = AT_ONCE if after is None else _positive(after, "--after")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        expires_ms = DelegationTokens(cluster).expire(_find(cluster, token_id).hmac, period_ms=period_ms)
    if period_ms == AT_ONCE:
        say(f"Removed token {token_id}.")
    else:
        say(f"Token {token_id} expires at {format_time(expires_ms)}.")


@app.command("list")
def list_tokens(
    owner: Annotated[
        list[str] | None,
        typer.Option(
            "--owner",
            metavar="PRINCIPAL",
            help="Only tokens that this principal owns, requested or may renew, such as User:alice. Repeatable.",
        ),
    ] = None,
    show_hmac: Annotated[bool, typer.Option("--show-hmac", help="Also print the HMACs, which are secret.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List the delegation tokens that the logged-in user may see."""
    owners = None if not owner else [_principal(one, "--owner") for one in owner]
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        found = DelegationTokens(cluster).list(owners)
    if format is OutputFormat.JSON:
        print_json([_as_json(token, shows_hmac=show_hmac) for token in found])
    elif found:
        rows = [_cells(token, shows_hmac=show_hmac) for token in found]
        print_table([name.replace("_", " ") for name in rows[0]], [tuple(row.values()) for row in rows])
    else:
        say("No matching tokens. `odradek token create` creates one.")


def _find(cluster: Cluster, token_id: str) -> TokenDescription:
    """The token with its HMAC, so that the secret is not needed on the command line."""
    for token in DelegationTokens(cluster).list():
        if token.token_id == token_id:
            return token
    raise UserError(
        f"Token {token_id!r} does not exist, or you may not see it. `odradek token list` shows your tokens."
    )


def _principal(text: str, option: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UserError(f"{option} {text!r} is not a principal. Use TYPE:NAME, such as User:alice.")
    return Principal(kind, name)


def _positive(text: str, option: str) -> int:
    duration_ms = parse_duration_ms(text, option)
    if duration_ms <= 0:
        raise UserError(f"{option} {text!r} is not positive. Use a duration such as PT12H.")
    return min(duration_ms, INT64_MAX)


def _cells(token: TokenDescription, *, shows_hmac: bool) -> dict[str, object]:
    times = {"issued": token.issued_ms, "expires": token.expires_ms, "ends": token.ends_ms}
    found: dict[str, object] = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": token.renewers,
        **{name: format_time(time_ms) for name, time_ms in times.items()},
    }
    return {**found, "hmac": _text(token.hmac)} if shows_hmac else found


def _as_json(token: TokenDescription, *, shows_hmac: bool) -> dict[str, Any]:
    found = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "ends_ms": token.ends_ms,
    }
    return {**found, "hmac": _text(token.hmac)} if shows_hmac else found


def _text(hmac: bytes) -> str:
    return b64encode(hmac).decode()
