"""Options of all commands that run on Spark."""

from typing import Annotated, Any, Final

import typer

from odradek.cli.options import parse_assignments
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError

DEFAULT_MASTER: Final = "local[*]"
Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Spark master URL; local[*] uses all cores of this machine."),
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="sc://HOST:PORT", help="Spark Connect server to use instead of --master."),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark configuration property. Repeatable.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        "-f",
        metavar="POSITION",
        help="Start position: beginning, end, an offset, -N or an ISO 8601 timestamp.",
    ),
]
Interval = Annotated[
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="With --follow: polling interval.")
]
BatchRecords = Annotated[int, typer.Option("--batch-records", min=1, help="Maximum records per batch.")]
SkipLost = Annotated[
    bool, typer.Option("--skip-lost", help="Continue if unread records were deleted. Without it, the job fails.")
]


def spark_settings(master: str, conf: list[str] | None, remote: str | None = None) -> Any:
    if remote is not None and master != DEFAULT_MASTER:
        raise UserError(
            "--master and --remote are mutually exclusive: a Spark Connect server has its own master. Use one of them."
        )
    settings = {"master": master, "conf": parse_assignments(conf, "--conf"), "remote": remote}
    return jobs_module("commands").SparkSettings(**settings)
