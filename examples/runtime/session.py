"""A local Spark session with the Kafka connector, which logs to a file instead of the terminal."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from examples.runtime.errors import PipelineError
from odradek.pipelines.jobs.java_process import java_session

# Kafka's clients log every refused connection while a broker is down: one line is enough, not a thousand.
LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
logger.clients.name = org.apache.kafka
logger.clients.level = error
"""


@contextlib.contextmanager
def spark_session(
    name: str, jars: Sequence[Path], work_directory: Path, log_file: Path, *, is_short: bool = True
) -> Iterator[SparkSession]:
    """Runs a local Spark in its own Java process, which ends with the context. Errors are PipelineErrors.

    With `is_short=False`, Java's optimizing compiler is enabled, for runs whose speed matters.
    """
    work_directory.mkdir(parents=True, exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    configuration = _configuration(name, jars, work_directory, log_file, is_short)

    def explain(error: Exception) -> PipelineError:
        return PipelineError(f"Spark failed: {first_line(error)}; its log is {log_file}")

    with java_session(configuration, log_file, explain) as spark:
        yield spark


def first_line(error: BaseException) -> str:
    """Returns Spark's error message without the query plan and the Java stack."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _configuration(name: str, jars: Sequence[Path], work_directory: Path, log_file: Path, is_short: bool) -> SparkConf:
    log_configuration = work_directory / "log4j2.properties"
    log_configuration.write_text(LOG_CONFIGURATION.format(log_file=log_file))
    java_options = (
        # In a run of half a minute, the optimizing compiler costs a third more CPU time than it saves.
        *(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if is_short else []),
        f"-Dlog4j2.configurationFile=file:{log_configuration}",
        # Also Java's temporary directory, for the native libraries that Spark unpacks.
        f"-Djava.io.tmpdir={work_directory}",
    )
    return SparkConf(loadDefaults=False).setAll(
        [
            ("spark.app.name", name),
            ("spark.master", "local[2]"),
            ("spark.jars", ",".join(str(jar) for jar in jars)),
            ("spark.driver.host", "127.0.0.1"),
            ("spark.driver.bindAddress", "127.0.0.1"),
            ("spark.driver.memory", "1g"),
            ("spark.driver.extraJavaOptions", " ".join(java_options)),
            ("spark.local.dir", str(work_directory / "local")),
            ("spark.sql.warehouse.dir", str(work_directory / "warehouse")),
            ("spark.sql.session.timeZone", "UTC"),
            # Two cores and small batches: the default of 200 tasks per shuffle would be nearly all overhead.
            ("spark.sql.shuffle.partitions", "2"),
            # Streaming queries do not support it and would log a warning.
            ("spark.sql.adaptive.enabled", "false"),
            ("spark.ui.enabled", "false"),
            ("spark.ui.showConsoleProgress", "false"),
        ]
    )
