"""The fastest start of Spark, for tests that start dozens of sessions and hundreds of its Python processes.

Java maps Spark's classes from an archive, which halves the processor time of a session's start. Python imports the
installed, compiled modules of PySpark instead of the zipped sources that Spark puts before them on its path: each of
its processes would compile those again.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark

from odradek.pipelines.jobs.session import spark_session
from tests.components import ROOT, cache_directory

BUILD_S_MAX = 240.0
# A test runs for seconds: full compilation would take longer than it saves.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Java reports on its standard output which classes an archive leaves out.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Options of the Java processes of drivers, and of masters and workers."""


def quick_environment() -> dict[str, str]:
    """Environment variables for every Spark. Builds the class archive if there is none."""
    home = _home_without_sources(cache_directory() / f"spark-{pyspark.__version__}")
    archive = home.parent / f"spark-{pyspark.__version__}.jsa"
    at_home = {"SPARK_HOME": str(home)}
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _build(archive, at_home)
    # Java itself ignores an archive of another Java version or of other jars.
    return at_home | dict.fromkeys(_VARIABLES, f"{QUICK_JAVA} -XX:SharedArchiveFile={archive} {_QUIET}")


def _home_without_sources(home: Path) -> Path:
    """Links to all that is installed, except the directory of zipped sources."""
    home.mkdir(parents=True, exist_ok=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        link = home / entry.name
        if entry.name == "python" or (link.is_symlink() and link.readlink() == entry):
            continue
        with suppress(FileNotFoundError):
            link.unlink()
        # Another worker may have created it meanwhile.
        with suppress(FileExistsError):
            link.symlink_to(entry)
    return home


def _build(archive: Path, at_home: dict[str, str]) -> None:
    part = archive.with_suffix(f".{os.getpid()}")
    options = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={part} {_QUIET}"
    # Java writes the archive when it exits, after Python: the pipe is open until then.
    result = subprocess.run(
        [sys.executable, "-m", "tests.spark.quick_spark"],
        cwd=ROOT,
        env=os.environ | at_home | {"SPARK_SUBMIT_OPTS": options},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    if result.returncode != 0 or not part.exists():
        raise RuntimeError(f"Spark's class archive was not built: {result.stdout[-2000:]}")
    part.rename(archive)


def _use_spark() -> None:
    """What most sessions do: an SQL query with a shuffle, rows through Python, a stream."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    with (
        tempfile.TemporaryDirectory() as work,
        spark_session("archive", master="local[1]", log_file=Path(work, "spark.log"), conf={}, is_short=True) as spark,
    ):
        numbers = spark.range(100).selectExpr("id % 7 as k", "cast(id as string) as v")
        numbers.groupBy("k").count().mapInArrow(same, "k long, count long").collect()
        numbers.write.parquet(f"{work}/table")
        spark.read.parquet(f"{work}/table").createOrReplaceTempView("rows")
        spark.sql("select k, max(v) from rows group by k order by k").collect()
        stream = spark.readStream.format("rate").load().writeStream.format("noop")
        query = stream.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination(60)


if __name__ == "__main__":
    _use_spark()
