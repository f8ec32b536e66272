"""Creates a pipeline's views and starts its streaming queries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from odradek.client.security import NOTHING, Security
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.dead_letters import JOB, TOPIC, as_letters
from odradek.pipelines.jobs.exactly_once_write import SinkBatch, write_once
from odradek.pipelines.jobs.pipeline.checkpoint import query_of
from odradek.pipelines.jobs.pipeline.decoding import LETTER_COLUMNS, SOURCE_COLUMNS, decode_task, decoded_schema
from odradek.pipelines.jobs.pipeline.definition import Pipeline, Sink, Source
from odradek.pipelines.jobs.pipeline.functions import PythonFunction, error_line, load_functions
from odradek.pipelines.jobs.pipeline.status import DEAD_LETTERS_METRIC
from odradek.pipelines.jobs.pipeline.table_sink import TableSink
from odradek.pipelines.jobs.session import spark_line
from odradek.pipelines.jobs.tables.table import open_table
from odradek.text.errors import UserError, nearest, with_full_stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

# A view with only these columns is written to a topic unchanged.
_RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "headers")


class PipelineQueries:
    def __init__(self, spark: "SparkSession", pipeline: Pipeline, security: Security = NOTHING) -> None:
        self._spark: Final = spark
        self._pipeline: Final = pipeline
        self._brokers: Final = broker_options(pipeline.bootstrap, security)

    def check(self) -> dict[str, str]:
        """Let Spark analyze every transformation and sink with empty streams. Returns the columns of each view."""
        from pyspark.sql import is_remote

        if is_remote():
            # The server must be able to access the directory.
            self._pipeline.state.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="odradek-validate-", dir=self._pipeline.state if is_remote() else None) as work:
            return self._check(Path(work))

    def _check(self, work: Path) -> dict[str, str]:
        empty = work / "empty"
        empty.mkdir()
        for source in self._pipeline.sources:
            self._view(source, self._spark.readStream.schema(self._schema(source)).parquet(str(empty)))
        columns = {}
        for name, view in self._create_views():
            columns[name] = view.schema.simpleString()
        for sink in self._pipeline.sinks:
            view = self._spark.table(sink.view)
            rows = _records(view, sink) if sink.topic is not None else view
            with _prefix_errors(f"sinks.{sink.name}"):
                writer = rows.writeStream.format("noop").outputMode(sink.mode).trigger(availableNow=True)
                writer.option("checkpointLocation", str(work / sink.name)).start().awaitTermination()
        return columns

    def starters(self) -> "Iterator[tuple[str, Callable[[], StreamingQuery]]]":
        """Yield a name and a start function for each sink and each source's dead letters."""
        streams = {source.name: self._stream(source) for source in self._pipeline.sources}
        for source in self._pipeline.sources:
            self._view(source, streams[source.name])
        for _ in self._create_views():
            pass
        for sink in self._pipeline.sinks:
            yield sink.name, partial(self._start_sink, sink)
        for source in self._pipeline.sources:
            if source.schema is not None and self._pipeline.dead_letters is not None:
                yield f"{source.name}.dead_letters", partial(self._start_letters, source, streams[source.name])

    def _create_views(self) -> "Iterator[tuple[str, DataFrame]]":
        """Create the views in order and yield them."""
        functions = load_functions(self._pipeline.transformations)
        for name, one in self._pipeline.transformations.items():
            with _prefix_errors(f"transformations.{name}"):
                view = self._spark.sql(one) if isinstance(one, str) else self._call(name, one, functions[name])
                view.createOrReplaceTempView(name)
            yield name, view

    def _call(self, name: str, function: PythonFunction, called: Callable[..., Any]) -> "DataFrame":
        from pyspark.errors import PySparkException
        from pyspark.sql import DataFrame

        try:
            found = called(*(self._spark.table(view) for view in function.views))
        except PySparkException:
            raise
        # User code may raise anything.
        except Exception as error:  # noqa: BLE001
            raise UserError(with_full_stop(f"transformations.{name}: {error_line(error, [function.file])}")) from None
        if not isinstance(found, DataFrame):
            kind = type(found).__name__
            raise UserError(f"transformations.{name}: {function.name!r} must return a DataFrame, not a {kind}.")
        return found

    def _stream(self, source: Source) -> "DataFrame":
        pipeline = self._pipeline
        options = {
            **self._brokers,
            "kafka.isolation.level": "read_committed",
            "subscribe": source.topic,
            "startingOffsets": "earliest" if source.start == "beginning" else "latest",
        }
        if source.max_records is not None:
            options["maxOffsetsPerTrigger"] = str(source.max_records)
        if source.schema is None:
            return self._spark.readStream.format("odradek").options(**options, includeHeaders="true").load()
        records = self._spark.readStream.format("odradek").options(**options, columns=SOURCE_COLUMNS).load()
        task = decode_task(source.schema, source.values, keep_bad=pipeline.dead_letters is not None)
        return records.mapInArrow(task, decoded_schema(source.schema))

    def _view(self, source: Source, stream: "DataFrame") -> None:
        view = stream
        if source.schema is not None:
            view = view.where("_error IS NULL").drop(*LETTER_COLUMNS)
        if source.watermark is not None:
            with _prefix_errors(f"sources.{source.name}.watermark"):
                view = view.withWatermark(*source.watermark)
        view.createOrReplaceTempView(source.name)

    def _schema(self, source: Source) -> "str | StructType":
        if source.schema is not None:
            return decoded_schema(source.schema)
        from odradek.pipelines.spark.row_schema import row_schema

        return row_schema({"includeheaders": "true"})

    def _start_sink(self, sink: Sink) -> "StreamingQuery":
        rows = self._spark.table(sink.view)
        if sink.table is not None:
            table = TableSink(
                sink.table,
                open_table(sink.format, sink.table, sink.place),
                job=self._job(sink.name),
                checkpoint=self._pipeline.state / sink.name,
            )
            return self._run(rows.writeStream.foreachBatch(table).outputMode(sink.mode), sink.name)
        assert sink.topic is not None
        return self._into_topic(_records(rows, sink), sink.topic, sink.name, sink.mode)

    def _start_letters(self, source: Source, stream: "DataFrame") -> "StreamingQuery":
        from pyspark.sql import functions as F

        assert self._pipeline.dead_letters is not None
        staged = stream.where("_error IS NOT NULL").selectExpr(
            "_key AS key",
            "_value AS value",
            "_partition AS partition",
            "_offset AS offset",
            "_timestamp AS timestamp",
            "_headers AS headers",
            "_error AS error",
        )
        counted = staged.observe(DEAD_LETTERS_METRIC, F.count(F.lit(1)).alias("rows"))
        letters = as_letters(counted, {JOB: self._pipeline.name, TOPIC: source.topic})
        return self._into_topic(letters, self._pipeline.dead_letters, f"{source.name}.dead_letters", "append")

    def _into_topic(self, records: "DataFrame", topic: str, name: str, mode: str) -> "StreamingQuery":
        options = {**self._brokers, "topic": topic}
        sink, checkpoint = f"odradek.{self._job(name)}", self._pipeline.state / name

        if mode == "append":
            writer = records.writeStream.format("odradek").options(**options, **{"kafka.transactional.id": sink})
            return self._run(writer, name)

        # Python stream sinks only support append, so write each batch with foreachBatch, also exactly once.
        def write(batch: "DataFrame", number: int) -> None:
            write_once(batch, options, SinkBatch(sink, query_of(checkpoint), number))

        return self._run(records.writeStream.foreachBatch(write).outputMode(mode), name)

    def _run(self, writer: "DataStreamWriter", name: str) -> "StreamingQuery":
        writer = writer.option("checkpointLocation", str(self._pipeline.state / name)).queryName(self._job(name))
        if self._pipeline.interval is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self._pipeline.interval).start()

    def _job(self, name: str) -> str:
        return f"{self._pipeline.name}.{name}"


@contextmanager
def _prefix_errors(part: str) -> Iterator[None]:
    """Prefix Spark's errors with the part of the file that they concern."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise UserError(with_full_stop(f"{part}: {spark_line(error)}")) from None


def _records(rows: "DataFrame", sink: Sink) -> "DataFrame":
    """Convert rows to records: unchanged if they have record columns, otherwise as JSON."""
    from pyspark.sql import functions as F

    if sink.key is not None and sink.key not in rows.columns:
        meant = nearest(sink.key, rows.columns)
        raise UserError(
            f"sinks.{sink.name}.key: view {sink.view!r} has no column {sink.key!r}."
            + (f" Did you mean {meant!r}?" if meant else "")
        )
    if sink.key is None and "value" in rows.columns and set(rows.columns) <= set(_RECORD_COLUMNS):
        return rows.drop("topic")
    value = F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).alias("value")
    if sink.key is None:
        return rows.select(value)
    return rows.select(F.col(f"`{sink.key}`").cast("string").alias("key"), value)
