"""The common part of both exactly-once writers: the driver begins a batch, tasks write it, the driver commits it.

Spark creates a writer on the driver, sends it to the tasks, and commits with another instance. So all state for the
commit is in the tasks' messages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from odradek.client.cluster import Cluster
from odradek.client.producer_transactions import TransactionHandle, TransactionTerms, transaction_terms
from odradek.pipelines.spark.exactly_once.driver import Generation, Report, abort, begin, commit
from odradek.pipelines.spark.exactly_once.requests import Request, Steps
from odradek.pipelines.spark.exactly_once.task import write_batch
from odradek.pipelines.spark.options import ExactlyOnceOptions
from odradek.pipelines.spark.sink.brokers import Brokers, drive
from odradek.pipelines.spark.sink.decision_log import DecisionLog
from odradek.pipelines.spark.topics import open_cluster
from odradek.pipelines.spark.writer import TopicRows

# Spark sets these properties for tasks only. With Connect they are missing in `foreachBatch`, so options replace them.
_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
# The query ID of sinks that batch jobs write to.
_BATCH_JOBS: Final = "batch jobs"


@dataclass(frozen=True, slots=True)
class StartedBatch:
    """Sent to the tasks, and back with their messages."""

    generation: Generation
    terms: TransactionTerms


@dataclass(frozen=True, slots=True)
class TaskDone(WriterCommitMessage):
    begun: StartedBatch
    batch: int
    report: Report


class ExactlyOnceRows:
    """One batch of a sink. It begins when it is pickled for the tasks; the committing instance never is."""

    def __init__(self, options: ExactlyOnceOptions, rows: TopicRows) -> None:
        self._options = options
        self._rows = rows
        self._begun: StartedBatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._begun is None:
            self._begun = self._begin()
        return self.__dict__

    def _begin(self) -> StartedBatch:
        with open_cluster(self._options.client, is_known=True) as cluster:
            terms = replace(transaction_terms(cluster), in_two_phases=self._options.in_two_phases)
            if self._options.timeout_ms is not None:
                terms = replace(terms, timeout_ms_max=self._options.timeout_ms)
            self._decision_log(cluster).ensure()
            steps = begin(self._options.sink, reuse_ids=terms.epochs_rise)
            return StartedBatch(self._drive(cluster, terms, steps), terms)

    def write(self, batches: Iterator[Any]) -> TaskDone:
        """Write the rows of a task."""
        begun, context = self._begun, TaskContext.get()
        assert begun is not None and context is not None
        query, batch = self._query_and_batch(context, begun.generation)
        first = next((one for one in batches if one.num_rows), None)
        steps = write_batch(begun.generation, batch, query, context.taskAttemptId(), has_rows=first is not None)
        with open_cluster(self._options.client, is_known=True) as cluster:

            def write_rows(member: TransactionHandle) -> None:
                self._rows.send(cluster, chain((first,), batches), member)

            report = self._drive(cluster, begun.terms, steps, write_rows)
        # Spark requires a task to consume all rows, even if the batch is already done.
        for _ in batches:
            pass
        return TaskDone(begun, batch, report)

    def _query_and_batch(self, context: TaskContext, generation: Generation) -> tuple[str, int]:
        """Return the query ID and the batch number."""
        if self._options.query is not None and self._options.batch is not None:
            return self._options.query, self._options.batch
        number = context.getLocalProperty(_BATCH_PROPERTY)
        batch = generation.after + 1 if number is None else int(number)
        return context.getLocalProperty(_QUERY_PROPERTY) or _BATCH_JOBS, batch

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = _finished_tasks(messages)
        if not done:
            # The batch had no tasks.
            return
        begun, reports = done[0].begun, [one.report for one in done]
        steps = commit(begun.generation, done[0].batch, reports, reuse_ids=begun.terms.epochs_rise)
        with open_cluster(self._options.client, is_known=True) as cluster:
            self._drive(cluster, begun.terms, steps)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the batch. Without messages, the next batch aborts the open transactions."""
        done = _finished_tasks(messages)
        if not done:
            return
        begun, reports = done[0].begun, [one.report for one in done]
        with open_cluster(self._options.client, is_known=True) as cluster:
            self._drive(cluster, begun.terms, abort(begun.generation, done[0].batch, reports))

    def _drive(
        self,
        cluster: Cluster,
        terms: TransactionTerms,
        steps: Steps[Any],
        write_rows: Callable[[TransactionHandle], None] | None = None,
    ) -> Any:
        return drive(steps, self._handler(cluster, terms, write_rows))

    def _handler(
        self, cluster: Cluster, terms: TransactionTerms, write_rows: Callable[[TransactionHandle], None] | None
    ) -> Callable[[Request], Any]:
        log = self._decision_log(cluster)
        return Brokers(cluster, self._options.sink, terms, log, write_rows=write_rows).handle

    def _decision_log(self, cluster: Cluster) -> DecisionLog:
        return DecisionLog(cluster, self._options.decision_topic, self._options.sink)


def _finished_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskDone]:
    return [one for one in messages if isinstance(one, TaskDone)]
