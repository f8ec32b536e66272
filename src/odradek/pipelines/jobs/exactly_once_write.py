"""Rows into a topic once for each batch of a job, by the exactly-once sink of `format("odradek")`.

The sink of a stream learns from Spark which batch it writes, and whose; a job tells it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkBatch(NamedTuple):
    """A batch that the sink has finished already is passed over; numbers rise, and may leave some out."""

    sink: str
    job_id: str
    batch: int


def write_once(rows: "DataFrame", options: Mapping[str, str], batch: SinkBatch) -> None:
    """Returns when all rows are visible."""
    identity = {"kafka.transactional.id": batch.sink, "queryId": batch.job_id, "batchId": str(batch.batch)}
    rows.write.format("odradek").options(**options, **identity).mode("append").save()
