"""A Spark driver as a process of its own, to be killed: a stream from one topic into another, exactly once.

    python -m tests.spark.sink_driver BOOTSTRAP SOURCE TARGET DIRECTORY [crash]

Says on its output what it has come to. With `crash` its query dies at each crash point first, and is started again.
"""

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.runtime.session import spark_session
from tests.spark.crashing_source import CRASH_POINTS, CrashingSource, arm
from tests.spark.slow_starts import QUERY_TIMEOUT_S, STARTS_MAX, run_to_the_end, was_too_slow

ROWS_PER_BATCH = 40


def say(what: str) -> None:
    print(what, flush=True)


class Stream:
    def __init__(self, spark: SparkSession, bootstrap: str, source: str, target: str, directory: Path) -> None:
        self._spark = spark
        self._rows = (
            spark.readStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe=source, startingOffsets="earliest", columns="value", maxOffsetsPerTrigger=ROWS_PER_BATCH)
            .load()
        )
        self._options = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": target,
            "kafka.transactional.id": target,
            "checkpointLocation": str(directory / "checkpoint"),
        }

    def writing(self, sink: str, **options: str) -> DataStreamWriter:
        return self._rows.writeStream.format(sink).options(**self._options, **options)

    def crash_everywhere(self, directory: Path) -> None:
        self._spark.dataSource.register(CrashingSource)
        for number, (name, (where, count)) in enumerate(CRASH_POINTS.items(), 1):
            # Each its own: a task of the query before may still be at work, and must not find what is not for it.
            crash_file = directory / f"crash-{number}"
            arm(crash_file, where, count)
            say(f"died: {name}: {self._death(crash_file)}")

    def _death(self, crash_file: Path) -> str:
        for _ in range(STARTS_MAX):
            try:
                self.writing("crashing", crashfile=str(crash_file)).start().awaitTermination(QUERY_TIMEOUT_S)
                break
            except StreamingQueryException as error:
                if not crash_file.exists():
                    return str(error).splitlines()[0][:100]
                if not was_too_slow(error):
                    raise
        raise TimeoutError(f"no process crashed because of {crash_file}")

    def to_the_end(self) -> None:
        run_to_the_end(self.writing("odradek").trigger(availableNow=True))


def main() -> None:
    bootstrap, source, target, given, *crash = sys.argv[1:]
    directory = Path(given)
    with spark_session("sink", (), directory / "work", directory / "spark.log") as spark:
        stream = Stream(spark, bootstrap, source, target, directory)
        if crash:
            stream.crash_everywhere(directory)
        say("running")
        stream.to_the_end()
        say("done")


if __name__ == "__main__":
    main()
