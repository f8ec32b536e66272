"""The columns of Spark's Kafka connector, or those that the `columns` option selects."""

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.options import includes_headers

HEADER_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADER_TYPE,
}


def row_schema(options: Mapping[str, str]) -> StructType:
    named = [name for part in options.get("columns", "").split(",") if (name := part.strip())]
    if not named:
        named = [name for name in _TYPES if name != "headers" or includes_headers(options)]
    for name in named:
        if name not in _TYPES:
            raise OptionError(f"Option columns: unknown column {name!r}. Choose from {', '.join(_TYPES)}.")
    if len(set(named)) < len(named):
        raise OptionError("Option columns: list each column only once.")
    return StructType([StructField(name, _TYPES[name]) for name in named])


def check_schema(schema: StructType) -> None:
    """A user-defined schema may only select columns, because types are not converted."""
    for field in schema.fields:
        expected = _TYPES.get(field.name)
        if expected is None or field.dataType != expected or not field.nullable:
            raise OptionError(
                f"Column {field.name} of type {field.dataType.simpleString()} cannot be read from a topic. Remove the "
                "schema, and select columns with the option columns."
            )
