"""The Spark job: two streaming queries over the orders topic, each with its own checkpoint.

One query writes every order to Parquet, exactly once because of the file sink's log. The other keeps totals by product
and minute and sends each changed row to a topic. After a failure, Spark's Kafka sink may send a row again with the same
key and value, so the topic read as a table is still exact.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from examples.orders.topics import Topics
from examples.runtime.errors import PipelineError
from examples.runtime.session import first_line

ORDER_SCHEMA = (
    "order_id BIGINT, customer STRING, product STRING, quantity BIGINT, amount_cents BIGINT, ordered_at_ms BIGINT"
)
TRIGGER_INTERVAL = "1 second"
ORDERS_PER_BATCH_MAX = 5_000
# How long the totals of a minute stay open. Orders are up to 20 s late, and after a broker outage one partition may be
# ahead of another by the duration of the outage. Later orders would be missing from their minute.
LATENESS_BOUND = "1 hour"


@dataclass(frozen=True, slots=True)
class JobPaths:
    parquet: Path
    checkpoints: Path


class OrdersJob:
    """Both queries. After a restart they resume from their checkpoints."""

    def __init__(self, spark: SparkSession, bootstrap: str, topics: Topics, paths: JobPaths) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._topics = topics
        self._paths = paths
        self._landing: StreamingQuery | None = None
        self._totals: StreamingQuery | None = None
        self.landed = 0
        self.aggregated = 0

    def start(self) -> None:
        self._landing = self._start_landing(self._read_orders())
        self._totals = self._start_totals(self._read_orders())

    def stop(self) -> None:
        """Stops both queries at once, even in the middle of a batch."""
        for query in filter(None, (self._landing, self._totals)):
            query.stop()
        self._landing = self._totals = None

    def refresh(self) -> None:
        """Updates `landed` and `aggregated` with the committed orders. Raises PipelineError if a query failed."""
        for query in filter(None, (self._landing, self._totals)):
            failure = query.exception()
            if failure is not None:
                raise PipelineError(f"the Spark query {query.name} failed: {first_line(failure)}")
        self.landed = max(self.landed, _committed_orders(self._landing, self._topics.orders))
        self.aggregated = max(self.aggregated, _committed_orders(self._totals, self._topics.orders))

    def _read_orders(self) -> DataFrame:
        records = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._topics.orders)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ORDERS_PER_BATCH_MAX)
            .load()
        )
        order = F.from_json(F.col("value").cast("string"), ORDER_SCHEMA)
        # Keep the origin of each row, so that a duplicate or a gap can be traced to its record.
        return records.select(order.alias("order"), "partition", "offset").select("order.*", "partition", "offset")

    def _start_landing(self, orders: DataFrame) -> StreamingQuery:
        return (
            orders.writeStream.format("parquet")
            .option("path", str(self._paths.parquet))
            .option("checkpointLocation", str(self._paths.checkpoints / "landing"))
            .trigger(processingTime=TRIGGER_INTERVAL)
            .queryName("landing")
            .start()
        )

    def _start_totals(self, orders: DataFrame) -> StreamingQuery:
        totals = (
            orders.withColumn("ordered_at", F.timestamp_millis("ordered_at_ms"))
            .withWatermark("ordered_at", LATENESS_BOUND)
            .groupBy(F.window("ordered_at", "1 minute"), "product")
            .agg(
                F.count("*").alias("orders"),
                F.sum("quantity").alias("quantity"),
                F.sum("amount_cents").alias("revenue_cents"),
            )
            .withColumn("minute_ms", F.unix_millis("window.start"))
        )
        rows = totals.select(
            F.to_json(F.struct("product", "minute_ms")).alias("key"),
            F.to_json(F.struct("product", "minute_ms", "orders", "quantity", "revenue_cents")).alias("value"),
        )
        return (
            rows.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", self._topics.totals)
            .option("checkpointLocation", str(self._paths.checkpoints / "totals"))
            .outputMode("update")
            .trigger(processingTime=TRIGGER_INTERVAL)
            .queryName("totals")
            .start()
        )


def _committed_orders(query: StreamingQuery | None, topic: str) -> int:
    """Number of records before the query's position; the topic starts at offset 0."""
    progress: StreamingQueryProgress | None = query.lastProgress if query is not None else None
    if progress is None or not progress.sources or not progress.sources[0].endOffset:
        return 0
    offsets = json.loads(progress.sources[0].endOffset)
    return sum(offsets.get(topic, {}).values())
