"""The columns of a record, with the names and types of Spark's Kafka connector."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

KEY = "key"
VALUE = "value"
TOPIC = "topic"
PARTITION = "partition"
OFFSET = "offset"
TIMESTAMP = "timestamp"
TIMESTAMP_TYPE = "timestampType"
HEADERS = "headers"

DEFAULT_COLUMNS = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE)
ALL_COLUMNS = (*DEFAULT_COLUMNS, HEADERS)

# Values of timestampType.
CREATE_TIME = 0
APPEND_TIME = 1

_TYPES = {
    KEY: pa.binary(),
    VALUE: pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("ms", "UTC"),
    TIMESTAMP_TYPE: pa.int32(),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def arrow_schema(columns: Iterable[str] = DEFAULT_COLUMNS) -> Any:
    """Return a pyarrow.Schema of these columns in their order. Raises ValueError with a message for the user."""
    names = tuple(columns)
    for name in names:
        if name not in _TYPES:
            raise ValueError(f"Unknown column {name!r}. Choose from {', '.join(ALL_COLUMNS)}.")
    if not names or len(set(names)) < len(names):
        raise ValueError("Select at least one column, and each column only once.")
    return pa.schema([(name, _TYPES[name]) for name in names])
