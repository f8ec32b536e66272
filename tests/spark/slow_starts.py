"""Spark gives a new Python process ten seconds to report back, which a busy machine may need for its imports.

What failed for that is begun again.
"""

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.readwriter import DataStreamWriter

STARTS_MAX = 5
QUERY_TIMEOUT_S = 300
_TOO_SLOW = "failed to connect back"


def was_too_slow(said: object) -> bool:
    return _TOO_SLOW in str(said)


def run_to_the_end(query: DataStreamWriter) -> None:
    """A query that ends by itself, once it has read all there is."""
    for attempt in range(1, STARTS_MAX + 1):
        try:
            query.start().awaitTermination(QUERY_TIMEOUT_S)
            return
        except StreamingQueryException as error:
            if not was_too_slow(error) or attempt == STARTS_MAX:
                raise
