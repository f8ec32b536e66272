"""Runs a Spark session in its own Java process. Imports PySpark."""

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
    """Spark's errors are raised as the result of `explain`."""
    with contextlib.ExitStack() as stack:
        try:
            with log_file.open("ab") as output:
                # Java writes a few lines before logging is configured. Keep them in the same file.
                gateway = launch_gateway(configuration, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            stack.callback(_end, gateway)
            on_interrupt = signal.getsignal(signal.SIGINT)
            session = SparkSession(SparkContext(gateway=gateway, conf=configuration))
            # Restore the handler: PySpark's calls Java from inside the call that it interrupts.
            signal.signal(signal.SIGINT, on_interrupt)
            try:
                yield session
            finally:
                session.stop()
        except (PySparkException, Py4JError, ConnectionError) as error:
            # Before Java ends, because PySpark gets error messages from it.
            raise explain(error) from error


def _end(gateway: Any) -> None:
    gateway.shutdown()
    # PySpark caches these globally. Without them, the next session starts its own Java process.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
