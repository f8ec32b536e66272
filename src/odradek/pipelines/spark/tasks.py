"""A read task: reads one offset range from leased files or the leader, as Arrow batches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from odradek.base.errors import KafkaError
from odradek.base.ids import uuid_from_text
from odradek.client.admin import EARLIEST, Admin
from odradek.client.leases import Lease, LeaseCredentials, LeaseRenewer
from odradek.pipelines.spark.errors import DataLoss
from odradek.pipelines.spark.options import ReadOptions
from odradek.pipelines.spark.planning import OffsetRange
from odradek.pipelines.spark.topics import open_cluster

if TYPE_CHECKING:
    from odradek.pipelines.arrow.sources import PartitionSource


class ReadTask(InputPartition):
    """Sent from the driver to a task."""

    def __init__(self, offsets: OffsetRange, held: Lease | None = None) -> None:
        super().__init__(tuple(offsets))
        self.offsets = offsets
        self.held = held


def read_task(
    options: ReadOptions, schema: StructType, task: InputPartition, credentials: LeaseCredentials | None = None
) -> Iterator[Any]:
    if not isinstance(task, ReadTask):
        # Spark's placeholder for a query without partitions.
        return
    # These import numba, which the driver does not need.
    from pyspark.sql.pandas.types import to_arrow_schema

    from odradek.pipelines.arrow.brokers import PartitionFetch
    from odradek.pipelines.arrow.leased_segments import LeasedSegments
    from odradek.pipelines.arrow.reading import record_batches

    offsets = task.offsets
    with open_cluster(options.client, is_known=True) as cluster:

        def on_loss(error: Exception, position: int) -> int:
            if options.fail_on_data_loss:
                raise DataLoss(f"Offset {position} of {offsets.partition} is no longer available ({error})") from error
            # After retention, continue at the start of the log. After truncation or recreation, nothing is left to
            # read.
            earliest = Admin(cluster).offsets({offsets.partition: EARLIEST})[offsets.partition]
            is_retention = isinstance(error, KafkaError) and earliest > position
            return earliest if is_retention else offsets.end

        source: PartitionSource = PartitionFetch(
            cluster,
            offsets.partition,
            earliest_offset=offsets.start,
            end_offset=offsets.end,
            read_committed=options.read_committed,
            topic_id=uuid_from_text(offsets.topic_id) if offsets.topic_id else None,
            on_loss=on_loss,
        )
        if task.held is not None and credentials is not None:
            keep = LeaseRenewer(credentials).renew_if_due
            source = LeasedSegments(task.held, source, read_committed=options.read_committed, keep=keep)
        yield from record_batches(source, to_arrow_schema(schema, timezone="UTC"), offsets.start, offsets.end)
