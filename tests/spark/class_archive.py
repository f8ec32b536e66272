"""Spark's classes as Java keeps them once they are loaded: a session that finds them so takes half the processor time
to start, and the tests start some dozens.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.jobs.session import spark_session
from tests.components import ROOT

BUILD_S_MAX = 240.0
# Java says on its output what it leaves out, class by class.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Where Spark looks for options of every Java process of a driver, and of masters and workers."""


def use_archive(file: Path) -> dict[str, str]:
    """What to have in the environment. An archive of another Java, or of other jars, is passed over by Java itself."""
    return dict.fromkeys(_VARIABLES, f"-XX:SharedArchiveFile={file} {_QUIET}")


def is_built(file: Path) -> bool:
    """Built now, if it was not. A Java that cannot is one that tests complain about in their own words."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        options = f"-XX:ArchiveClassesAtExit={part} {_QUIET}"
        subprocess.run(
            [sys.executable, "-m", "tests.spark.class_archive"],
            cwd=ROOT,
            env=os.environ | {"SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.DEVNULL,
            timeout=BUILD_S_MAX,
            check=False,
        )
        if part.exists():
            part.rename(file)
    return file.exists()


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
