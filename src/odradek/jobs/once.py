"""Rows into a topic once for each batch of a job, by the exactly-once sink of `format("odradek")`.

The sink learns the batch and to whom it belongs from what Spark tells the tasks of a stream; a job tells the same.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY_PROPERTY: Final = "sql.streaming.queryId"
_BATCH_PROPERTY: Final = "streaming.sql.batchId"


class SinkBatch(NamedTuple):
    """A batch that the sink has finished already is passed over; numbers rise, and may leave some out."""

    sink: str
    job_id: str
    batch: int


def write_once(rows: "DataFrame", options: Mapping[str, str], batch: SinkBatch) -> None:
    """Returns when all rows are visible."""
    with _told(rows, batch):
        rows.write.format("odradek").options(**options, **{"kafka.transactional.id": batch.sink}).mode("append").save()


@contextmanager
def _told(rows: "DataFrame", batch: SinkBatch) -> Iterator[None]:
    context = rows.sparkSession.sparkContext
    told = {_QUERY_PROPERTY: batch.job_id, _BATCH_PROPERTY: str(batch.batch)}
    for name, text in told.items():
        context.setLocalProperty(name, text)
    try:
        yield
    finally:
        for name in told:
            # None takes it away, which the annotation does not know.
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
