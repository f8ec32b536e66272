"""`spark.read.format("odradek")`: the topics as they are when the query is planned, or the part that was asked for."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from odradek.spark.errors import DataLoss
from odradek.spark.options import ReadOptions
from odradek.spark.planning import OffsetRange, split_ranges
from odradek.spark.pushdown import EVERYTHING, Wanted, wanted_by
from odradek.spark.tasks import ReadTask, read_task
from odradek.spark.topics import Topics


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
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
                    raise DataLoss(f"{partition} begins at offset {earliest[partition]}: {start} is gone")
                start = earliest[partition]
            if not self._wanted.includes(partition.partition):
                continue
            start, end = self._wanted.offsets(max(start, later.get(partition, end)), end)
            ranges.append(OffsetRange(partition, topic_id, start, end))
        return [
            ReadTask(one)
            for one in split_ranges(
                ranges,
                tasks_min=options.tasks_min,
                records_max=options.records_per_task_max,
                cores=os.cpu_count() or 1,
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options, self._schema, partition)


class FilteringReader(BatchReader):
    """Spark refuses a reader that takes filters, unless `spark.sql.python.filterPushdown.enabled` is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted = wanted_by(filters)
        return filters
