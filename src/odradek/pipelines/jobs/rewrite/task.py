"""A task of `rewrite`: drops duplicates and erased keys, sets new keys, and computes partitions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.rules import Keyless
from odradek.pipelines.spark.version_check import check_version

# Optional input columns in addition to the source's.
NEW_KEY: Final = "new_key"
IS_DOUBLE: Final = "_is_double"
# Output columns: the record, its origin and its partition. The last row has the number of records read.
REWRITTEN: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, timestamp timestamp, "
    "source_partition int, source_offset bigint, partition int"
)
# The partition of the count row, whose source_offset is the number of records read.
COUNT: Final = -1
_KEPT: Final = ("value", "headers", "timestamp", "partition", "offset")
_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("partition", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Passed to Spark's mapInArrow and sent to every task."""

    topic: str
    erased: ErasedKeys | None
    changes_keys: bool
    keyless: Keyless
    partition_count: int
    """Of the target."""
    version: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        check_version(self.version)
        read = 0
        for batch in batches:
            read += batch.num_rows
            if IS_DOUBLE in batch.schema.names:
                batch = batch.filter(pc.invert(batch.column(IS_DOUBLE)))
            if self.erased is not None:
                batch = batch.filter(pc.invert(self.erased.among(batch.column("key"))))
            if self.changes_keys:
                batch = self._with_key(batch)
            if batch.num_rows:
                keys = batch.column(NEW_KEY if self.changes_keys else "key")
                kept = [batch.column(name) for name in _KEPT]
                yield pa.RecordBatch.from_arrays([keys, *kept, self._partitions(keys, batch)], names=_ARROW.names)
        yield pa.RecordBatch.from_pylist([{"source_offset": read, "partition": COUNT}], schema=_ARROW)

    def _with_key(self, batch: Any) -> Any:
        keys = batch.column(NEW_KEY)
        if not keys.null_count or self.keyless is Keyless.KEEP:
            return batch
        if self.keyless is Keyless.DROP:
            return batch.filter(keys.is_valid())
        first = batch.filter(keys.is_null()).slice(0, 1).to_pylist()[0]
        raise ValueError(
            f"The new key of offset {first['offset']} of {self.topic}-{first['partition']} is null. Nothing of this "
            "batch was written. Correct --key, or choose --keyless keep or drop."
        )

    def _partitions(self, keys: Any, batch: Any) -> Any:
        """Choose partitions as Java clients do. Records without a key stay with those of their source partition."""
        # Imports numba, which the driver does not need.
        from odradek.pipelines.arrow.writing import parts_of
        from odradek.pipelines.arrow.writing_kernels import partitions_of_keys

        count = self.partition_count
        parts = parts_of(keys, batch.num_rows)
        found = batch.column("partition").to_numpy().astype("int64") % count
        found[parts.lengths >= 0] = -1
        partitions_of_keys(parts.data, parts.starts, parts.lengths, count, found)
        return pa.array(found, pa.int64()).cast(pa.int32())
