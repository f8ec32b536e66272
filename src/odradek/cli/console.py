"""`odradek console`: serve the web console of a cluster."""

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from odradek.cli.console_process import DEFAULT_PORT, MISSING
from odradek.cli.job_command import parse_job_command
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, read_security
from odradek.client.address import parse_bootstrap
from odradek.text.errors import UserError


def command(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free port.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on. Non-local addresses require a login and TLS."
        ),
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable all changes.")] = False,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="File containing the login password.")
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option("--oidc-issuer", metavar="URL", help="OpenID Connect provider for login, instead of a password."),
    ] = None,
    oidc_client_id: Annotated[
        str | None, typer.Option("--oidc-client-id", metavar="ID", help="Client ID of the console at the provider.")
    ] = None,
    oidc_secret_file: Annotated[
        Path | None, typer.Option("--oidc-secret-file", metavar="FILE", help="File containing the client secret.")
    ] = None,
    oidc_allow: Annotated[
        list[str] | None,
        typer.Option(
            "--oidc-allow",
            metavar="USER",
            help="Users who may log in: ann@example.org, @example.org, a subject, or * for all. Repeatable.",
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option("--public-url", metavar="URL", help="Public URL of the console; required for OpenID Connect."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="TLS certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Private key of the TLS certificate (PEM).")
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option("--audit-log", metavar="FILE", help="File for the audit log of changes."),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            envvar="ODRADEK_SCHEMA_REGISTRY",
            metavar="URL",
            help="URL of the schema registry, to decode Avro and Protobuf records.",
        ),
    ] = None,
    pipeline: Annotated[
        list[Path] | None,
        typer.Option("--pipeline", metavar="FILE", help="Local pipeline to show in the console. Repeatable."),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="COMMAND",
            help="Local job to show in the console, such as 'ingest TOPIC TABLE --follow'. Repeatable.",
        ),
    ] = None,
    attached: Annotated[
        bool,
        typer.Option("--attached", hidden=True, help="Print `ready ADDRESS`, and exit when standard input closes."),
    ] = False,
) -> None:
    """Serve a web console for any Kafka cluster."""
    try:
        settings = import_module("odradek.console.settings")
        server = import_module("odradek.console.server")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("odradek"):
            raise
        raise UserError(MISSING) from None
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UserError(f"--bootstrap: {error}") from None
    files = {"--tls-certificate": tls_certificate, "--tls-key": tls_key, "--oidc-secret-file": oidc_secret_file}
    for option, file in (*files.items(), *(("--pipeline", file) for file in pipeline or ())):
        if file is not None and not file.is_file():
            raise UserError(f"{option}: file not found: {str(file)!r}. Check the path.")
    oidc = None
    if oidc_issuer is not None:
        if oidc_client_id is None or oidc_secret_file is None or public_url is None:
            raise UserError("--oidc-issuer also requires --oidc-client-id, --oidc-secret-file and --public-url.")
        oidc = settings.OidcSettings(
            issuer=oidc_issuer,
            client_id=oidc_client_id,
            client_secret=settings.read_password(oidc_secret_file, "--oidc-secret-file"),
            public_url=public_url.rstrip("/"),
            allowed=tuple(one.strip().lower() if "@" in one else one.strip() for one in oidc_allow or ()),
        )
    server.serve(
        settings.Settings(
            bootstrap=addresses,
            security=read_security(command_config),
            host=host,
            port=port,
            audit_log=audit_log or server.default_audit_log(dict(os.environ), Path.home()),
            is_read_only=read_only,
            password=None if password_file is None else settings.read_password(password_file),
            oidc=oidc,
            certificate=tls_certificate,
            private_key=tls_key,
            schema_registry=schema_registry,
            pipelines=tuple(file.absolute() for file in pipeline or ()),
            jobs=tuple(parse_job_command(text, "--job") for text in job or ()),
            is_attached=attached,
        )
    )
