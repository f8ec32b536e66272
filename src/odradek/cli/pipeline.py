"""`odradek pipeline`: pipelines defined in YAML, run on Spark by `odradek.pipelines.jobs`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.job_options import DEFAULT_MASTER, Conf, Master, Remote, spark_settings
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster

app = typer.Typer(no_args_is_help=True, help="Topics through SQL into tables and topics, on Spark, by a YAML file.")

File = Annotated[Path, typer.Argument(metavar="[FILE]", show_default=True, help="The pipeline.")]
DEFAULT_FILE = Path("pipeline.yaml")


@app.command()
def init(file: File = DEFAULT_FILE, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Write an example, to be changed."""
    _commands().init(file, bootstrap)


@app.command()
def validate(
    context: typer.Context,
    file: File = DEFAULT_FILE,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Check the file, its topics, and its SQL as Spark reads it; nothing is run."""
    if _is_declarative(file):
        return _run_declarative(context, file, spark_settings(master, conf, remote), format, dry=True)
    pipeline = _read(file)
    with _open_cluster(pipeline, timeout, command_config) as cluster:
        _commands().validate(cluster, pipeline, spark_settings(master, conf, remote), format)


@app.command()
def run(
    context: typer.Context,
    file: File = DEFAULT_FILE,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Run it: to the end of what there is, or on and on. The same command again goes on where it stopped."""
    if _is_declarative(file):
        return _run_declarative(context, file, spark_settings(master, conf, remote), format, dry=False)
    pipeline = _read(file)
    with _open_cluster(pipeline, timeout, command_config) as cluster:
        raise typer.Exit(_commands().run(cluster, pipeline, spark_settings(master, conf, remote), format))


@app.command()
def status(file: File = DEFAULT_FILE, format: Format = OutputFormat.TABLE) -> None:
    """How far it is, or was. Exit code 1: it does not run, and did not end well."""
    raise typer.Exit(_commands().status(_read(file), format))


@app.command()
def stop(file: File = DEFAULT_FILE, timeout: Timeout = 120.0) -> None:
    """Let a run on this machine end after its batch."""
    _commands().stop(_read(file), timeout)


def _open_cluster(pipeline: Any, timeout_s: float, command_config: Path | None) -> "Cluster":
    """What is said here goes before what the file says."""
    return open_cluster(pipeline.bootstrap, timeout_s, command_config or pipeline.command_config)


def _read(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"there is no {str(file)!r}: `odradek pipeline init {file}` writes an example")
    if _is_declarative(file):
        raise UserError(f"{str(file)!r} is one of Spark's own pipelines, of which only `run` and `validate` know")
    return jobs_module("pipeline.definition").read_pipeline(file)


def _is_declarative(file: Path) -> bool:
    return bool(jobs_module("declarative").is_declarative(file))


def _run_declarative(context: typer.Context, file: Path, spark: Any, format: OutputFormat, *, dry: bool) -> None:
    # The environment's is for whoever can use it; what is asked for here is not passed over.
    source = context.get_parameter_source("command_config")
    if source is not None and source.name == "COMMANDLINE":
        raise UserError(
            "--command-config is not for Spark's own pipelines: each of their flows names its options itself"
        )
    jobs_module("declarative").run(file, spark, format, dry=dry)


def _commands() -> Any:
    return jobs_module("pipeline.commands")
