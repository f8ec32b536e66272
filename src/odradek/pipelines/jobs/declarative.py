"""Runs a `spark-pipeline.yml` of Spark Declarative Pipelines: one triggered update on a Connect server.

Spark stores checkpoints in the file's `storage` and tables in the server's catalog. Without --remote, a local server
runs for the update, with a persistent catalog next to the file. Imports PySpark's client.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from odradek.pipelines.jobs.commands import SparkSettings
from odradek.pipelines.jobs.connect_server import connect_server
from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.session import connect_missing, server_session, spark_line
from odradek.pipelines.jobs.state import check_name
from odradek.text.errors import UserError, with_full_stop
from odradek.text.output import OutputFormat, print_json
from odradek.text.terminal import say

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import SparkSession

# Keys that only Spark's pipeline files have.
_KEYS: Final = ("storage", "libraries")
WAREHOUSE: Final = "spark-warehouse"
"""Spark's name for the directory of its tables."""


def is_declarative(file: Path) -> bool:
    """Whether it is a file of Spark Declarative Pipelines. Invalid YAML is reported by `read_pipeline`."""
    try:
        form = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(form, dict) and any(key in form for key in _KEYS)


def run(file: Path, spark: SparkSettings, format: OutputFormat, *, dry: bool) -> None:
    """Return when all flows have processed the available data, or with `dry` when the graph is validated."""
    spec = _spec(file)
    state = file.absolute().parent / ".odradek" / check_name(spec.name)
    state.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            hold_lock(state / "lock", f"Pipeline {spec.name!r} is already running. Wait until it ends.")
        )
        session = stack.enter_context(_session(spec.name, spark, state))
        for message in _update(session, spec, file, dry=dry):
            if format is OutputFormat.JSON:
                print_json({"event": "progress", "message": message})
            else:
                say(message)
    if format is OutputFormat.JSON:
        print_json({"event": "valid" if dry else "done", "name": spec.name})
    else:
        say(f"Pipeline {spec.name} is valid." if dry else f"Pipeline {spec.name} is done.")


def _spec(file: Path) -> "PipelineSpec":
    try:
        from pyspark.errors import PySparkException
        from pyspark.pipelines.cli import load_pipeline_spec
    except ImportError as error:
        raise connect_missing(error) from None

    try:
        return load_pipeline_spec(file)
    except PySparkException as error:
        raise UserError(with_full_stop(f"{file}: {spark_line(error)}")) from None


@contextlib.contextmanager
def _session(name: str, spark: SparkSettings, state: Path) -> "Iterator[SparkSession]":
    log_file = state / "spark.log"
    if spark.remote is not None:
        with spark.session(name, log_file) as session:
            yield session
        return
    server = connect_server(
        name,
        master=spark.master,
        log_file=log_file,
        conf=spark.conf,
        metastore=state / "metastore",
        warehouse=state.parent.parent / WAREHOUSE,
    )
    with server as url, server_session(url, {}, log=repr(str(log_file))) as session:
        yield session


def _update(session: "SparkSession", spec: "PipelineSpec", file: Path, *, dry: bool) -> Iterator[str]:
    """Yield Spark's progress messages."""
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    for name, text in spec.configuration.items():
        session.conf.set(name, text)
    graph = create_dataflow_graph(session, spec.catalog, spec.database, spec.configuration)
    registry = SparkConnectGraphElementRegistry(session, graph)
    # Keep the output of PySpark and of user code out of our standard output.
    with contextlib.redirect_stdout(sys.stderr), _users_code(file):
        register_definitions(file, registry, spec, session, graph)
    for progress in start_run(session, graph, [], False, [], dry, spec.storage):
        event: Any = progress.get("pipeline_event_result")
        if event is not None:
            yield event.event.message


@contextlib.contextmanager
def _users_code(file: Path) -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException:
        raise
    # User code may raise anything.
    except Exception as error:
        raise UserError(f"{file}: the code in `libraries` failed: {type(error).__name__}: {error}") from error
