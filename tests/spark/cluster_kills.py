"""On a Spark cluster a stream copies a topic into another, and a job fills a table with it, both exactly once, while
executors, their Python workers and the broker are killed. A run that fails is started again, as its user would.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek.pipelines.jobs.audit import TableAudit, TableAuditSettings
from odradek.pipelines.jobs.ingest import IngestJob, IngestSettings
from odradek.pipelines.jobs.state import JobState
from tests.patience import Patience
from tests.spark.audited_topics import SOURCE, TARGET, AuditedTopics
from tests.spark.standalone import StandaloneSpark

EXECUTOR, WORKER, BROKER = KINDS = ("executor", "worker", "broker")
ROWS_PER_BATCH = 40
# Before each kill: two batches, in the midst of which it comes.
ROWS_PER_KILL = 2 * ROWS_PER_BATCH
LATEST_KILL_S = 1.0
RECOVERY_TIMEOUT_S = 240.0
QUERY_TIMEOUT_S = 300
LOOK_S = 0.1
# Of the job one after the other, without a batch between them.
FAILURES_MAX = 10


class ClusterUnderFire(AuditedTopics):
    def __init__(self, directory: Path, spark: SparkSession, workers: StandaloneSpark) -> None:
        super().__init__(directory)
        self._spark = spark
        self._workers = workers
        self._checkpoint = directory / "checkpoint"
        self._table = directory / "table"
        self._is_over = threading.Event()
        self._job = threading.Thread(target=self._ingest_on_and_on, daemon=True)
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        super().__enter__()
        self._query = self._start_stream()
        self._job.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._is_over.set()
        self._query.stop()
        super().__exit__(*details)

    def kill(self, kind: str, chance: random.Random) -> str:
        """Returns when all rows so far are in the topic; what happened."""
        self.add(ROWS_PER_KILL)
        after_s = chance.uniform(0.0, LATEST_KILL_S)
        time.sleep(after_s)
        if kind == BROKER:
            self.broker.kill()
            self.broker.start()
        else:
            self._kill_one(kind, chance)
        failed = self._recover(self._start_stream)
        return f"{kind} killed after {after_s:.2f} s, the query " + (f"failed: {failed}" if failed else "keeps running")

    def _kill_one(self, kind: str, chance: random.Random) -> None:
        find = self._workers.executors if kind == EXECUTOR else self._workers.python_workers
        patience = Patience(RECOVERY_TIMEOUT_S)
        while not (there := find()):
            assert not patience.is_over(), f"there is no {kind} to be killed"
            time.sleep(LOOK_S)
        # One that has just ended by itself died as well.
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(there), signal.SIGKILL)

    def _recover(self, start: Callable[[], StreamingQuery]) -> str:
        self._query, failed = run_until(lambda: self.visible().total() >= self.rows, self._query, start)
        return failed

    def finish(self) -> None:
        self._is_over.set()
        self._job.join(QUERY_TIMEOUT_S)
        assert not self._job.is_alive(), "the job does not end"
        self._query.stop()
        # Transactions that a killed process left open are aborted with the next batch.
        self.add(ROWS_PER_BATCH)
        self._query = self._start_last()
        self._recover(self._start_last)
        assert self._query.awaitTermination(QUERY_TIMEOUT_S), "the last query does not end"
        self._ingest(follow=False)

    def check(self) -> None:
        super().check()
        settings = TableAuditSettings(bootstrap=self.broker.bootstrap, topic=SOURCE, table=self._table, name=SOURCE)
        with self.cluster() as cluster:
            found = TableAudit(cluster, settings).run(self._spark)
        assert found.is_exact, list(found.sentences())
        assert sum(one.rows for one in found.partitions) == self.rows

    def _start_stream(self) -> StreamingQuery:
        return self._stream(maxOffsetsPerTrigger=ROWS_PER_BATCH)

    def _start_last(self) -> StreamingQuery:
        return self._stream(is_last=True)

    def _stream(self, *, is_last: bool = False, **options: int) -> StreamingQuery:
        rows = (
            self._spark.readStream.format("odradek")
            .option("kafka.bootstrap.servers", self.broker.bootstrap)
            .options(subscribe=SOURCE, startingOffsets="earliest", columns="value", **options)
            .load()
        )
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": TARGET, "kafka.transactional.id": TARGET}
        writer = rows.writeStream.format("odradek").options(**options, checkpointLocation=str(self._checkpoint))
        return (writer.trigger(availableNow=True) if is_last else writer).start()

    def _ingest_on_and_on(self) -> None:
        while not self._is_over.is_set() and len(self._failures) < FAILURES_MAX:
            try:
                self._ingest(follow=True)
            # The same command resumes after any failure.
            except Exception as error:  # noqa: BLE001
                self._failures.append(str(error))
                time.sleep(LOOK_S)

    def _ingest(self, *, follow: bool) -> None:
        settings = IngestSettings(
            bootstrap=self.broker.bootstrap,
            topic=SOURCE,
            table=self._table,
            name=SOURCE,
            follow=follow,
            interval_s=LOOK_S,
            batch_records=ROWS_PER_KILL,
        )
        state = JobState(self._table, SOURCE)
        with state.hold(), self.cluster() as cluster:
            IngestJob(cluster, settings, state).run(
                self._spark,
                on_progress=lambda progress: self._failures.clear(),
                should_stop=lambda: follow and self._is_over.is_set(),
            )


def run_until(
    is_done: Callable[[], bool], query: StreamingQuery, start: Callable[[], StreamingQuery]
) -> tuple[StreamingQuery, str]:
    """Starts the query again whenever it ends before its work is done. Returns the running query and the last failure.

    A query that is to end by itself must be followed by one of its kind: an endless one would never end.
    """
    failed = ""
    patience = Patience(RECOVERY_TIMEOUT_S)
    while not is_done():
        assert not patience.is_over(), f"no batch is written any more; {failed}"
        if not query.isActive:
            if (error := query.exception()) is not None:
                failed = str(error).strip().splitlines()[0][:200]
            elif is_done():
                # It ended while its rows were counted.
                break
            query = start()
        time.sleep(LOOK_S)
    return query, failed


def shuffled(kinds: Sequence[str], kills: int, chance: random.Random) -> list[str]:
    every = [kind for kind in kinds for _ in range(kills)]
    chance.shuffle(every)
    return every
