"""`odradek console`: a web page to see and run a cluster with."""

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from odradek.cli.console_beside import DEFAULT_PORT, MISSING
from odradek.cli.job_command import parse_job_command
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, read_security
from odradek.client.address import parse_bootstrap
from odradek.text.errors import UserError


def command(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0: any that is free.")] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere only with password and TLS."),
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, change nothing.")] = False,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="Its first line lets people in.")
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option("--oidc-issuer", metavar="URL", help="A provider of OpenID Connect, instead of a password."),
    ] = None,
    oidc_client_id: Annotated[
        str | None, typer.Option("--oidc-client-id", metavar="ID", help="As whom the provider knows the console.")
    ] = None,
    oidc_secret_file: Annotated[
        Path | None, typer.Option("--oidc-secret-file", metavar="FILE", help="Its first line is the client's secret.")
    ] = None,
    oidc_allow: Annotated[
        list[str] | None,
        typer.Option("--oidc-allow", metavar="WHO", help="ann@example.org, @example.org, a subject, or *; repeatable."),
    ] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", metavar="URL", help="Where browsers reach the console, for OIDC.")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM, with the chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM, of the certificate.")] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option("--audit-log", metavar="FILE", help="Where changes are written down."),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            envvar="ODRADEK_SCHEMA_REGISTRY",
            metavar="URL",
            help="Where the schemas of Avro and Protobuf records are.",
        ),
    ] = None,
    pipeline: Annotated[
        list[Path] | None,
        typer.Option("--pipeline", metavar="FILE", help="A pipeline of this machine, to be shown too; repeatable."),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="COMMAND",
            help="A job of this machine, to be shown too, as 'ingest TOPIC TABLE --follow'; repeatable.",
        ),
    ] = None,
    attached: Annotated[
        bool, typer.Option("--attached", hidden=True, help="Say `ready ADDRESS`, and end when standard input does.")
    ] = False,
) -> None:
    """Serve a web page to see and run a cluster with: any Kafka cluster."""
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
    named = {"--tls-certificate": tls_certificate, "--tls-key": tls_key, "--oidc-secret-file": oidc_secret_file}
    for option, file in (*named.items(), *(("--pipeline", file) for file in pipeline or ())):
        if file is not None and not file.is_file():
            raise UserError(f"{option}: there is no file {str(file)!r}")
    oidc = None
    if oidc_issuer is not None:
        if oidc_client_id is None or oidc_secret_file is None or public_url is None:
            raise UserError("--oidc-issuer wants --oidc-client-id, --oidc-secret-file and --public-url too")
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
