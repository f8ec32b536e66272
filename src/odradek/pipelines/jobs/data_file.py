"""A Parquet file that a task writes: made when there is something to put in, on the disk when it is closed."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from odradek.pipelines.jobs.atomic_files import fsync_directory


class DataFileWriter:
    def __init__(self, path: Path, schema: Any | None = None) -> None:
        """Without a schema, that of the first batch."""
        self.path: Final = path
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: Any) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, self._schema or batch.schema, compression="zstd")
        self._writer.write_batch(batch)

    def close(self) -> bool:
        """False: there is no file."""
        if self._writer is None:
            return False
        self._writer.close()
        with self.path.open("rb") as written:
            os.fsync(written.fileno())
        fsync_directory(self.path.parent)
        return True


def data_file_name(batch: int, own: str, job: str) -> str:
    """`own`: what no other attempt has. The batch and the job tell whose file it is."""
    return f"part-{batch:010d}-{own}-{job}.parquet"
