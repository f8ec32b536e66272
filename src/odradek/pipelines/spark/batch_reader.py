"""`spark.read.format("odradek")`: the records that exist when the query is planned, or a range of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from odradek.client.leases import LeaseCredentials
from odradek.pipelines.spark.errors import DataLoss
from odradek.pipelines.spark.leasing import read_tasks, request_leases
from odradek.pipelines.spark.options import ReadOptions
from odradek.pipelines.spark.planning import OffsetRange
from odradek.pipelines.spark.pushdown import EVERYTHING, Wanted, parse_filters
from odradek.pipelines.spark.tasks import read_task
from odradek.pipelines.spark.topics import Topics


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType, credentials: LeaseCredentials | None = None) -> None:
        """`credentials` are for requesting leases. Without them, all records are fetched from brokers."""
        self._options = options
        self._schema = schema
        self._credentials = credentials
        self._wanted: Wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with closing(Topics(options)) as topics:
            partitions = topics.partitions()
            starts = topics.resolve(options.start, partitions, name="startingOffsets")
            ends = topics.resolve(options.end, partitions, name="endingOffsets")
            earliest = topics.earliest(partitions)
            later = topics.first_since(partitions, self._wanted.first_timestamp_ms)
            ranges = []
            for partition, topic_id in partitions.items():
                start, end = starts.find(partition), ends.find(partition)
                assert start is not None and end is not None
                if start < earliest[partition]:
                    if options.fail_on_data_loss:
                        raise DataLoss(
                            f"{partition} starts at offset {earliest[partition]}, so offset {start} was deleted"
                        )
                    start = earliest[partition]
                if not self._wanted.includes(partition.partition):
                    continue
                start, end = self._wanted.offsets(max(start, later.get(partition, end)), end)
                ranges.append(OffsetRange(partition, topic_id, start, end))
            held = request_leases(topics.cluster, self._credentials, ranges, read_committed=options.read_committed)
        # Spark does not report the end of the last task, so the leases expire by themselves.
        return read_tasks(options, ranges, held)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options, self._schema, partition, self._credentials)


class FilteringReader(BatchReader):
    """Spark rejects a reader with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted = parse_filters(filters)
        return filters
