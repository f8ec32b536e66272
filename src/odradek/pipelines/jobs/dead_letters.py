"""Dead letters: copies of records that do not fit the table, with headers for their origin and the reason."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.pipelines.jobs.exactly_once_write import SinkBatch, write_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

JOB: Final = "odradek.job"
TOPIC: Final = "odradek.origin.topic"
PARTITION: Final = "odradek.origin.partition"
OFFSET: Final = "odradek.origin.offset"
TIMESTAMP: Final = "odradek.origin.timestamp"
ERROR: Final = "odradek.error"

# The columns of dead letters in staging files.
STAGED: Final = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>, error string"
)


def send_letters(
    spark: "SparkSession",
    files: Sequence[str],
    options: Mapping[str, str],
    *,
    sink: SinkBatch,
    origin: Mapping[str, str],
) -> None:
    """Send the records of the staging files, once for this batch."""
    staged = spark.read.schema(STAGED).parquet(*files)
    write_once(as_letters(staged, origin), options, sink)


def as_letters(staged: "DataFrame", origin: Mapping[str, str]) -> "DataFrame":
    """Append headers to the records. They get a new timestamp, because retention would count from the old one."""
    from pyspark.sql import functions as F

    def header(name: str, value: "Column") -> "Column":
        return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    headers = [
        *(header(name, F.lit(text)) for name, text in origin.items()),
        header(PARTITION, F.col("partition")),
        header(OFFSET, F.col("offset")),
        header(TIMESTAMP, F.unix_millis("timestamp")),
        header(ERROR, F.col("error")),
    ]
    own = F.coalesce(F.col("headers"), F.array().cast("array<struct<key: string, value: binary>>"))
    return staged.select("key", "value", F.concat(own, F.array(*headers)).alias("headers"))
