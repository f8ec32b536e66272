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

app = typer.Typer(
    no_args_is_help=True, help="Run Spark pipelines defined in YAML: topics through SQL to tables and topics."
)

File = Annotated[Path, typer.Argument(metavar="[FILE]", show_default=True, help="Pipeline file.")]
DEFAULT_FILE = Path("pipeline.yaml")


@app.command()
def init(file: File = DEFAULT_FILE, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Write an example pipeline file."""
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
    """Check the file, its topics and its SQL without running the pipeline."""
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
    """Run the pipeline, once or continuously as the file says. Run the same command again to resume."""
    if _is_declarative(file):
        return _run_declarative(context, file, spark_settings(master, conf, remote), format, dry=False)
    pipeline = _read(file)
    with _open_cluster(pipeline, timeout, command_config) as cluster:
        raise typer.Exit(_commands().run(cluster, pipeline, spark_settings(master, conf, remote), format))


@app.command()
def status(file: File = DEFAULT_FILE, format: Format = OutputFormat.TABLE) -> None:
    """Show the progress of the current or last run. Exit code 1 if it is not running and its last run failed."""
    raise typer.Exit(_commands().status(_read(file), format))


@app.command()
def stop(file: File = DEFAULT_FILE, timeout: Timeout = 120.0) -> None:
    """Stop a run on this machine after its current batch."""
    _commands().stop(_read(file), timeout)


def _open_cluster(pipeline: Any, timeout_s: float, command_config: Path | None) -> "Cluster":
    """Connect with --command-config if given, else with the file's `command_config`."""
    return open_cluster(pipeline.bootstrap, timeout_s, command_config or pipeline.command_config)


def _read(file: Path) -> Any:
    if not file.is_file():
        raise UserError(
            f"Pipeline file not found: {str(file)!r}. Create an example with `odradek pipeline init {file}`."
        )
    if _is_declarative(file):
        raise UserError(f"{str(file)!r} is a Spark Declarative Pipeline. Only `run` and `validate` support it.")
    return jobs_module("pipeline.definition").read_pipeline(file)


def _is_declarative(file: Path) -> bool:
    return bool(jobs_module("declarative").is_declarative(file))


def _run_declarative(context: typer.Context, file: Path, spark: Any, format: OutputFormat, *, dry: bool) -> None:
    # The option is ignored if it comes from the environment, but rejected if it is on the command line.
    source = context.get_parameter_source("command_config")
    if source is not None and source.name == "COMMANDLINE":
        raise UserError(
            "Spark Declarative Pipelines do not support --command-config. Set the options in the pipeline's flows."
        )
    jobs_module("declarative").run(file, spark, format, dry=dry)


def _commands() -> Any:
    return jobs_module("pipeline.commands")
