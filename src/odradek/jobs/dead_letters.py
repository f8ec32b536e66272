"""Records that no table could take, sent on to a topic of their own: as they were, with where they came from and why.

At least once: a driver that dies between sending and committing sends again. The origin tells such copies apart.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from odradek.client.cluster import Cluster
from odradek.client.produce import Producer
from odradek.records.record import Record

JOB: Final = "odradek.job"
TOPIC: Final = "odradek.origin.topic"
PARTITION: Final = "odradek.origin.partition"
OFFSET: Final = "odradek.origin.offset"
TIMESTAMP: Final = "odradek.origin.timestamp"
ERROR: Final = "odradek.error"

_ROWS: Final = 1000


def send_letters(cluster: Cluster, files: Iterable[Path], *, to: str, job: str, topic: str) -> int:
    """Returns when all are acknowledged; says how many there were."""
    producer = Producer(cluster)
    sent = 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=_ROWS):
            for record in _records(batch, job, topic):
                producer.add(to, record)
                sent += 1
            producer.flush()
    return sent


def _records(batch: Any, job: str, topic: str) -> Iterator[Record]:
    now_ms = time.time_ns() // 1_000_000
    for row in batch.to_pylist():
        headers = tuple((one["key"], one["value"]) for one in row.get("headers") or ())
        origin = {
            JOB: job,
            TOPIC: topic,
            PARTITION: str(row["partition"]),
            OFFSET: str(row["offset"]),
            TIMESTAMP: str(int(row["timestamp"].timestamp() * 1000)),
            ERROR: row["error"],
        }
        # Not the record's own time: retention would count from then.
        yield Record(
            row["key"], row["value"], now_ms, (*headers, *((name, text.encode()) for name, text in origin.items()))
        )
