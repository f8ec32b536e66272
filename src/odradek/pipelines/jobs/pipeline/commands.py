"""The entry points of `odradek pipeline`."""

from pathlib import Path

from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.commands import INTERRUPTED, SparkSettings, temporary_session
from odradek.pipelines.jobs.interruption import stop_requests
from odradek.pipelines.jobs.lock import find_holder, hold_lock
from odradek.pipelines.jobs.pipeline.definition import Pipeline
from odradek.pipelines.jobs.pipeline.display import pipeline_display, show_status
from odradek.pipelines.jobs.pipeline.example import example
from odradek.pipelines.jobs.pipeline.functions import load_functions
from odradek.pipelines.jobs.pipeline.queries import PipelineQueries
from odradek.pipelines.jobs.pipeline.run import check_identity, check_topics, lock_file, run_pipeline
from odradek.pipelines.jobs.pipeline.status import PipelineStatus
from odradek.pipelines.jobs.status_file import DONE, STOPPED
from odradek.pipelines.jobs.stopping import stop_holder
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say


def init(file: Path, bootstrap: str) -> None:
    try:
        with file.open("x") as output:
            output.write(example(file.stem, bootstrap, file.name))
    except FileExistsError:
        raise UserError(f"{str(file)!r} already exists. Choose another file.") from None
    say(f"Wrote {file}. Edit it, then check it with `odradek pipeline validate {file}`.")


def validate(cluster: Cluster, pipeline: Pipeline, spark: SparkSettings, format: OutputFormat) -> None:
    check_topics(cluster, pipeline)
    load_functions(pipeline.transformations)
    with temporary_session(f"validate {pipeline.name}", spark) as session:
        columns = PipelineQueries(session, pipeline).check()
    if format is OutputFormat.JSON:
        print_json({"name": pipeline.name, "views": columns})
        return
    if columns:
        print_table(("view", "columns"), columns.items())
    say(f"Pipeline {pipeline.name} is valid.")


def run(cluster: Cluster, pipeline: Pipeline, spark: SparkSettings, format: OutputFormat) -> int:
    pipeline.state.mkdir(parents=True, exist_ok=True)
    refusal = f"Pipeline {pipeline.name!r} is already running. Stop it with `odradek pipeline stop`."
    log_file = pipeline.state / "spark.log"
    with hold_lock(lock_file(pipeline), refusal), stop_requests() as should_stop:
        check_identity(pipeline)
        check_topics(cluster, pipeline)
        load_functions(pipeline.transformations)
        with (
            spark.session(pipeline.name, log_file) as session,
            pipeline_display(format) as show,
        ):
            status = run_pipeline(session, pipeline, security=cluster.security, on_status=show, should_stop=should_stop)
    if format is OutputFormat.JSON:
        print_json(status.to_json())
    else:
        show_status(pipeline.name, status, runs=False, format=format)
    return INTERRUPTED if status.state == STOPPED else 0


def status(pipeline: Pipeline, format: OutputFormat) -> int:
    """Return 0 if the pipeline runs or ended normally, otherwise 1."""
    found, runs = PipelineStatus.read(pipeline.state), find_holder(lock_file(pipeline)) is not None
    show_status(pipeline.name, found, runs=runs, format=format)
    return 0 if runs or (found is not None and found.state in (DONE, STOPPED)) else 1


def stop(pipeline: Pipeline, timeout_s: float) -> None:
    if stop_holder(lock_file(pipeline), timeout_s):
        say(f"Stopped pipeline {pipeline.name}.")
    else:
        say(f"Pipeline {pipeline.name} is not running.")
