"""Counts the records of a topic in Spark tasks and evaluates the total. Read-only."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import odradek
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.skew.advice import SkewFindings, judge
from odradek.pipelines.jobs.skew.summary import COLUMNS, Summary
from odradek.pipelines.jobs.topic_range import TopicRange, limit_batch, source_options
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.pipelines.spark.version_check import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUMMARY: Final = pa.schema([("summary", pa.string())])
_ALL: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewSettings:
    bootstrap: str
    topic: str
    start: str | None = None
    end: str | None = None


class SkewJob:
    """Checks everything that can be checked before Spark starts."""

    def __init__(self, cluster: Cluster, settings: SkewSettings) -> None:
        self._settings: Final = settings
        self._brokers: Final = broker_options(settings.bootstrap, cluster.security)
        # Deleted records do not matter for counts.
        range_ = TopicRange(cluster, settings.topic, skip_lost=True)
        self._partition_count: Final = len(range_.partitions())
        self._start: Final = range_.first(settings.start or "beginning")
        self._end: Final[Positions | None] = limit_batch(self._start, range_.last(settings.end), _ALL)

    @property
    def has_work(self) -> bool:
        """Whether Spark must be started."""
        return self._end is not None

    def run(self, spark: "SparkSession | None") -> SkewFindings:
        summary = Summary()
        if spark is not None and self._end is not None:
            records = (
                spark.read.format("odradek")
                .options(**source_options(self._brokers, self._start, self._end))
                .options(columns=",".join(COLUMNS), failOnDataLoss="false")
                .load()
            )
            task = CountTask(odradek.__version__)
            for row in records.mapInArrow(lambda batches: task(batches), "summary string").toLocalIterator():
                summary.merge(Summary.from_json(row.summary))
        return judge(self._settings.topic, summary, self._partition_count)


@dataclass(frozen=True, slots=True)
class CountTask:
    """Passed to Spark's mapInArrow and sent to every task."""

    version: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        check_version(self.version)
        summary = Summary()
        for batch in batches:
            summary.add(batch)
        yield pa.RecordBatch.from_arrays([pa.array([summary.to_json()])], schema=_SUMMARY)
