"""Options that all commands running on Spark share."""

from typing import Annotated, Any, Final

import typer

from odradek.cli.options import parse_assignments
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError

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


def spark_settings(master: str, conf: list[str] | None, remote: str | None = None) -> Any:
    if remote is not None and master != DEFAULT_MASTER:
        raise UserError("--master and --remote exclude each other: a Connect server has its own master")
    settings = {"master": master, "conf": parse_assignments(conf, "--conf"), "remote": remote}
    return jobs_module("commands").SparkSettings(**settings)
