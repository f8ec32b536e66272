"""Spark as it starts quickest, for tests that start some dozens, and hundreds of its Python processes.

Java finds Spark's classes as it keeps them once they are loaded, which halves the processor time of a session's start.
Python finds PySpark's modules compiled, where they are installed, instead of in the archive of sources that Spark puts
before them: each of its processes would compile them anew.
"""

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
# In a run of seconds or minutes compiling well would cost more than it saves.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Java says on its output what it leaves out, class by class.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Where Spark looks for options of every Java process of a driver, and of masters and workers."""


def quick_environment() -> dict[str, str]:
    """What to have in the environment. Builds what it speaks of, if that is not there; a Java that cannot is one that
    tests complain about in their own words.
    """
    home = _home_without_sources(cache_directory() / f"spark-{pyspark.__version__}")
    archive = home.parent / f"spark-{pyspark.__version__}.jsa"
    at_home = {"SPARK_HOME": str(home)}
    if not archive.exists():
        _build(archive, at_home)
    # One of another Java, or of other jars, is passed over by Java itself.
    shared = f" -XX:SharedArchiveFile={archive} {_QUIET}" if archive.exists() else ""
    return at_home | dict.fromkeys(_VARIABLES, QUICK_JAVA + shared)


def _home_without_sources(home: Path) -> Path:
    """All that is installed, by links, but for the directory of the archive."""
    home.mkdir(parents=True, exist_ok=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        link = home / entry.name
        if entry.name == "python" or (link.is_symlink() and link.readlink() == entry):
            continue
        with suppress(FileNotFoundError):
            link.unlink()
        # Another process of the tests may be just here.
        with suppress(FileExistsError):
            link.symlink_to(entry)
    return home


def _build(archive: Path, at_home: dict[str, str]) -> None:
    part = archive.with_suffix(f".{os.getpid()}")
    options = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={part} {_QUIET}"
    subprocess.run(
        [sys.executable, "-m", "tests.spark.quick_spark"],
        cwd=ROOT,
        env=os.environ | at_home | {"SPARK_SUBMIT_OPTS": options},
        stdout=subprocess.DEVNULL,
        timeout=BUILD_S_MAX,
        check=False,
    )
    if part.exists():
        part.rename(archive)


def _use_spark() -> None:
    """What most sessions do: a query in SQL with an exchange, rows through Python, a stream."""

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
