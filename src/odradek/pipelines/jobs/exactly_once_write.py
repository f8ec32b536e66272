"""Writes each batch of a job to a topic once, with the exactly-once sink of `format("odradek")`.

In streams, the sink gets query and batch from Spark. A job passes them as options.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkBatch(NamedTuple):
    """The sink skips batches that it has finished. Numbers must increase, with gaps allowed."""

    sink: str
    job_id: str
    batch: int


def write_once(rows: "DataFrame", options: Mapping[str, str], batch: SinkBatch) -> None:
    """Return when all rows are committed."""
    identity = {"kafka.transactional.id": batch.sink, "queryId": batch.job_id, "batchId": str(batch.batch)}
    rows.write.format("odradek").options(**options, **identity).mode("append").save()
