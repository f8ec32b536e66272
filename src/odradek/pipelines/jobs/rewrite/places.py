"""Searches for erased keys in topics (by record key), tables, and groups whose consumers may have copies.

It does not search values, nor anything outside the cluster and the given directories.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.groups import Groups
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.tables import TableCopies, table_copies
from odradek.pipelines.spark.version_check import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONFIGS: Final = ("cleanup.policy", "remote.storage.enable", "retention.ms")
_FOUND: Final = "topic string, partition int, records bigint"
_FOUND_ARROW: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int64())])


class PlaceKind(StrEnum):
    TOPIC = "topic"
    TABLE = "table"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    kind: PlaceKind
    name: str
    records: int | None
    """None if unknown."""
    advice: str
    """The situation and what to do about it."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "name": self.name, "records": self.records, "advice": self.advice}

    def __str__(self) -> str:
        counted = "" if self.records is None else f", {self.records:,} record{'' if self.records == 1 else 's'}"
        return f"{self.kind} {self.name}{counted}: {self.advice}."


class ErasureSearch:
    def __init__(self, cluster: Cluster, bootstrap: str, source: str, erased: ErasedKeys) -> None:
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)
        self._brokers: Final = broker_options(bootstrap, cluster.security)
        self._source: Final = source
        self._erased: Final = erased

    def topics(self) -> list[str]:
        """Return all topics that are not internal."""
        layout = self._cluster.retry("listing topics", lambda: self._cluster.layout(None))
        return sorted(topic.name for topic in layout.topics.values() if not topic.is_internal)

    def places(self, spark: "SparkSession", tables: Iterable[Path]) -> list[Place]:
        copies = [
            Place(kind=PlaceKind.TABLE, name=str(one.directory), records=one.records, advice=_table_advice(one))
            for one in table_copies(tables, self._erased)
        ]
        return [*self._in_topics(spark), *copies, *self._groups()]

    def _in_topics(self, spark: "SparkSession") -> list[Place]:
        """Search all records, including aborted ones and those that compaction will remove."""
        topics = self.topics()
        if not topics:
            return []
        records = (
            spark.read.format("odradek")
            .options(
                **{
                    **self._brokers,
                    "subscribe": ",".join(topics),
                    "startingOffsets": "earliest",
                    "endingOffsets": "latest",
                    # Records or topics may be deleted during the search.
                    "failOnDataLoss": "false",
                    "columns": "topic,partition,key",
                }
            )
            .load()
        )
        task = CountErased(self._erased, odradek.__version__)
        counts: dict[str, int] = {}
        for row in records.mapInArrow(lambda batches: task(batches), _FOUND).toLocalIterator():
            counts[row.topic] = counts.get(row.topic, 0) + row.records
        configs = self._admin.topic_configs(sorted(counts), _CONFIGS) if counts else {}
        return [
            Place(
                kind=PlaceKind.TOPIC,
                name=topic,
                records=count,
                advice=_topic_advice({one.name: one.value or "" for one in configs[topic]}),
            )
            for topic, count in sorted(counts.items())
        ]

    def _groups(self) -> list[Place]:
        groups = Groups(self._cluster)
        committed = groups.offsets(one.id for one in groups.listings())
        return [
            Place(
                kind=PlaceKind.GROUP,
                name=group,
                records=None,
                advice=f"has read {self._source}, and its consumers may have stored the records",
            )
            for group, offsets in sorted(committed.items())
            if _has_read(offsets, self._source)
        ]


def _has_read(offsets: Mapping[TopicPartition, int], topic: str) -> bool:
    return any(one.topic == topic and offset > 0 for one, offset in offsets.items())


def _topic_advice(configs: Mapping[str, str]) -> str:
    policy, retention_ms = configs.get("cleanup.policy", "delete"), configs.get("retention.ms", "-1")
    remote = ", also in remote storage" if configs.get("remote.storage.enable") == "true" else ""
    if "compact" in policy:
        return f"compacted{remote}. Produce a tombstone for each key, or delete the topic"
    if retention_ms == "-1":
        return f"unlimited retention{remote}. Delete the topic, or rewrite it too"
    return f"retained for {int(retention_ms) // 3_600_000} hours{remote}. Wait that long, delete or rewrite the topic"


def _table_advice(found: TableCopies) -> str:
    parts = []
    if found.live_records:
        parts.append("delete the rows from the table")
    if found.records > found.live_records:
        parts.append("remove the files that are not part of the table, for example with VACUUM in Delta")
    return ", then ".join(parts)


@dataclass(frozen=True, slots=True)
class CountErased:
    """Passed to Spark's mapInArrow and sent to every task, which reads one partition."""

    erased: ErasedKeys
    version: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        check_version(self.version)
        counts: dict[tuple[str, int], int] = {}
        for batch in batches:
            found = pc.sum(self.erased.among(batch.column("key"))).as_py() or 0
            if found:
                where = (batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
                counts[where] = counts.get(where, 0) + found
        rows = [{"topic": topic, "partition": number, "records": n} for (topic, number), n in counts.items()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_FOUND_ARROW)
