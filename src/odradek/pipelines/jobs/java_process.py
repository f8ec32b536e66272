"""A Spark session in a Java process of its own, which ends with it. Imports PySpark, and is imported when needed."""

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_STOP_TIMEOUT_S: Final = 20.0


@contextlib.contextmanager
def java_session(
    configuration: SparkConf, log_file: Path, explain: Callable[[Exception], Exception]
) -> Iterator[SparkSession]:
    """What fails in Spark is raised as what `explain` makes of it."""
    with contextlib.ExitStack() as stack:
        try:
            with log_file.open("ab") as output:
                # Java writes a few lines before its logging is configured: they belong into the same file.
                gateway = launch_gateway(configuration, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            stack.callback(_end, gateway)
            on_interrupt = signal.getsignal(signal.SIGINT)
            session = SparkSession(SparkContext(gateway=gateway, conf=configuration))
            # PySpark has put its own handler there, which calls Java from within whatever call to Java it interrupts.
            signal.signal(signal.SIGINT, on_interrupt)
            try:
                yield session
            finally:
                session.stop()
        except (PySparkException, Py4JError, ConnectionError) as error:
            # Before Java ends: PySpark asks it for what an error says.
            raise explain(error) from error


def _end(gateway: Any) -> None:
    gateway.shutdown()
    # PySpark keeps these for the life of the interpreter; without them the next session starts its own Java, also
    # when this one did not stop but die.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
