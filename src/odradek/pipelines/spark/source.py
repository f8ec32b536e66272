"""The data source: validates options and creates readers and writers."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from odradek.pipelines.spark.batch_reader import BatchReader, FilteringReader
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.lease_options import lease_options
from odradek.pipelines.spark.options import client_options, exactly_once_options, read_options, should_push_filters
from odradek.pipelines.spark.row_schema import check_schema, row_schema
from odradek.pipelines.spark.sink.exactly_once_rows import ExactlyOnceRows
from odradek.pipelines.spark.sink.writers import ExactlyOnceBatchWriter, ExactlyOnceStreamWriter
from odradek.pipelines.spark.stream_reader import StreamReader
from odradek.pipelines.spark.writer import BatchWriter, StreamWriter, TopicRows, check_rows
from odradek.records.compression import Compression


class OdradekSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Option names are case-insensitive in Spark.
        self._options = {name.lower(): value for name, value in options.items()}

    def schema(self) -> StructType:
        return row_schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        kind = FilteringReader if should_push_filters(self._options) else BatchReader
        return kind(read_options(self._options, streaming=False), schema, lease_options(self._options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_schema(schema)
        return StreamReader(read_options(self._options, streaming=True), schema, lease_options(self._options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("Topics only support appending. Write with mode append.")
        rows, once = self._rows(schema), exactly_once_options(self._options, streaming=False)
        return BatchWriter(rows) if once is None else ExactlyOnceBatchWriter(ExactlyOnceRows(once, rows))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        rows, once = self._rows(schema), exactly_once_options(self._options, streaming=True)
        return StreamWriter(rows) if once is None else ExactlyOnceStreamWriter(ExactlyOnceRows(once, rows))

    def _rows(self, schema: StructType) -> TopicRows:
        topic = self._options.get("topic")
        check_rows(schema, topic)
        compression = self._options.get("kafka.compression.type", "none").lower()
        codecs = [codec.name.lower() for codec in Compression]
        if compression not in codecs:
            raise OptionError(
                f"Option kafka.compression.type: unknown codec {compression!r}. Choose from {', '.join(codecs)}."
            )
        return TopicRows(client_options(self._options), topic, compression)
