"""Options that commands with Spark behind them share, and the way to what runs, `odradek.jobs`, when it is needed."""

from importlib import import_module
from typing import Annotated, Any, Final

import typer

from odradek.cli.errors import UserError
from odradek.cli.options import parse_assignments

DEFAULT_MASTER: Final = "local[*]"
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*] is this machine, with all its cores.")
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server to run on, instead of --master."),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
]
From = Annotated[
    str | None,
    typer.Option("--from", "-f", metavar="WHERE", help="beginning, end, an offset, -N, or a time in ISO 8601."),
]
Interval = Annotated[
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="With --follow: how often to look.")
]
BatchRecords = Annotated[int, typer.Option("--batch-records", min=1, help="The most of one batch.")]
SkipLost = Annotated[bool, typer.Option("--skip-lost", help="Go on where records are gone that the job had not read.")]


def jobs_module(name: str) -> Any:
    """A module of `odradek.jobs`. It lies above this package, and wants more than the base install has."""
    try:
        return import_module(f"odradek.jobs.{name}")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("odradek"):
            raise
        raise UserError(f"{error.name} is not installed here: pip install 'odradek[jobs]'") from None


def spark_settings(master: str, conf: list[str] | None, remote: str | None = None) -> Any:
    if remote is not None and master != DEFAULT_MASTER:
        raise UserError("--master and --remote exclude each other: a Connect server has its own master")
    settings = {"master": master, "conf": parse_assignments(conf, "--conf"), "remote": remote}
    return jobs_module("commands").SparkSettings(**settings)
