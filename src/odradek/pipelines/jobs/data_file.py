"""Writes a task's Parquet file. The file is created with the first batch and synced on close."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from odradek.pipelines.jobs.atomic_files import fsync_directory


class DataFileWriter:
    def __init__(self, path: Path, schema: Any | None = None) -> None:
        """Without a schema, the first batch's is used."""
        self.path: Final = path
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: Any) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, self._schema or batch.schema, compression="zstd")
        self._writer.write_batch(batch)

    def close(self) -> bool:
        """Return False if there is no file."""
        if self._writer is None:
            return False
        self._writer.close()
        with self.path.open("rb") as written:
            os.fsync(written.fileno())
        fsync_directory(self.path.parent)
        return True


def data_file_name(batch: int, own: str, job: str) -> str:
    """`own` is unique per attempt. The batch and the job identify the owner."""
    return f"part-{batch:010d}-{own}-{job}.parquet"
