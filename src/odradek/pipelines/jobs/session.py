"""The Spark session of one job, with a local driver or a Connect server. Spark logs to a file."""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from odradek.client.errors import NotAuthenticated
from odradek.client.explain import advise_on_security
from odradek.pipelines.jobs.broker_options import HIDDEN_OPTIONS
from odradek.pipelines.jobs.java import check_java
from odradek.text.errors import UserError, as_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_CONFIGURATION: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
"""
_TRACEBACK: Final = "Traceback (most recent call last):"
# The error line of a traceback, the only one that is not indented.
_PYTHON_ERROR: Final = re.compile(r"(?:\w+\.)*(\w+)(?:: (.+))?")


@contextlib.contextmanager
def spark_session(
    name: str,
    *,
    master: str,
    log_file: Path,
    conf: Mapping[str, str],
    remote: str | None = None,
    is_short: bool = False,
) -> "Iterator[SparkSession]":
    """Raises UserError for missing requirements and Spark's errors. `is_short` reduces Java's compilation effort."""
    if remote is not None:
        with server_session(remote, conf, log=f"the log of the server at {without_secrets(remote)}") as session:
            yield session
        return
    try:
        from odradek.pipelines.jobs.java_process import java_session
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed. Install it with pip install 'odradek[jobs]'.") from None
    check_java()
    _quieten()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

    def explain(error: Exception) -> UserError:
        return UserError(f"{as_sentence(spark_line(error))} See {str(log_file)!r} for details.")

    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-spark-")))
        configuration = _configuration(name, master, work, log_file, conf, is_short)
        # Visible only in a terminal, until Spark has started.
        with Console(stderr=True).status("Starting Spark…"):
            session = stack.enter_context(java_session(configuration, log_file, explain))
        yield session


@contextlib.contextmanager
def server_session(url: str, conf: Mapping[str, str], *, log: str) -> "Iterator[SparkSession]":
    """A session on a Connect server. `log` is the place of details, for errors."""
    try:
        from pyspark.errors import PySparkException

        from odradek.pipelines.jobs.remote_session import remote_session
    except ImportError as error:
        raise connect_missing(error) from None
    _quieten()
    try:
        with remote_session(url, conf) as session:
            yield session
    except (PySparkException, ConnectionError) as error:
        raise UserError(f"{as_sentence(spark_line(error))} See {log} for details.") from error


def without_secrets(url: str) -> str:
    """Remove parameters, which may include a token."""
    return url.partition(";")[0].rstrip("/")


def connect_missing(error: ImportError) -> UserError:
    """PySpark reports the first missing package of its client."""
    return UserError(
        f"Spark Connect is not installed ({error.name or error}). Install it with pip install 'odradek[connect]'."
    )


def _quieten() -> None:
    """Disable the logger that prints SQL errors, which are raised as well."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


def spark_line(error: BaseException) -> str:
    """Describe the error in one line: the Python error of a task, or else Spark's first line."""
    _, traceback, rest = str(error).rpartition(_TRACEBACK)
    if traceback:
        for line in rest.splitlines():
            found = _PYTHON_ERROR.fullmatch(line)
            if found is not None:
                reason = found[2] or found[1]
                return advise_on_security(reason) if found[1] == NotAuthenticated.__name__ else reason
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"Spark failed: {lines[0] if lines else type(error).__name__}"


def _configuration(name: str, master: str, work: Path, log_file: Path, conf: Mapping[str, str], is_short: bool) -> Any:
    from pyspark import SparkConf

    log_configuration = work / "log4j2.properties"
    log_configuration.write_text(_LOG_CONFIGURATION.format(log_file=log_file.absolute()))
    java_options = [
        f"-Dlog4j2.configurationFile=file:{log_configuration}",
        # For native libraries that Spark unpacks.
        f"-Djava.io.tmpdir={work}",
        # For the log of Derby, the local catalog's database.
        f"-Dderby.system.home={work}",
        *(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if is_short else []),
    ]
    chosen = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": str(work),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **HIDDEN_OPTIONS,
    }
    if master.startswith("local"):
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return SparkConf().setAll(list((chosen | dict(conf)).items()))
