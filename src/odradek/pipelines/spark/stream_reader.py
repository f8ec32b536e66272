"""`spark.readStream.format("odradek")`: micro-batches whose offsets Spark stores in the query's checkpoint.

Spark calls this on the driver, one call at a time, in a process that lives as long as the query. Only the offsets
survive a restart.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.errors import ClientError
from odradek.client.groups import Groups
from odradek.client.leases import LeaseCredentials, LeaseRenewer
from odradek.pipelines.spark.errors import DataLoss
from odradek.pipelines.spark.leasing import Leases, read_tasks, request_leases
from odradek.pipelines.spark.options import ReadOptions
from odradek.pipelines.spark.planning import OffsetRange, limit_offsets
from odradek.pipelines.spark.tasks import read_task
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.pipelines.spark.topics import Topics

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType, credentials: LeaseCredentials | None = None) -> None:
        """`credentials` are for requesting leases. Without them, all records are fetched from brokers."""
        self._options = options
        self._schema = schema
        self._credentials = credentials
        # The leases of the last planned batch.
        self._leases: Leases = {}
        self._opened: Topics | None = None
        # The end of a query with Trigger.AvailableNow: the latest offsets at its start.
        self._target: Positions | None = None
        self._latest: Positions | None = None
        self._published: Positions | None = None
        self._last_batch_at = time.monotonic()

    # ---- called by Spark

    def initialOffset(self) -> dict[str, Any]:
        found = self._topics.resolve(self._options.start, self._topics.partitions(), name="startingOffsets")
        return found.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark accepts only one limit; `latestOffset` also applies the other."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._find_latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Positions.from_json(start)
        latest = self._target if self._target is not None else self._find_latest()
        self._publish_progress(begun, latest)
        starts = self._starts(begun, latest)
        ends = self._limit_ends(starts, latest, limit)
        if ends is None:
            return begun.to_json()
        if ends != begun:
            self._last_batch_at = time.monotonic()
        return ends.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ends = Positions.from_json(end)
        starts = self._starts(Positions.from_json(start), ends)
        ranges = [
            OffsetRange(partition, ends[partition.topic].id, starts[partition], offset)
            for partition, offset in ends.partitions()
        ]
        self._release()
        if self._credentials is not None:
            self._leases = request_leases(
                self._topics.cluster, self._credentials, ranges, read_committed=self._options.read_committed
            )
        return read_tasks(self._options, ranges, self._leases)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options, self._schema, partition, self._credentials)

    def commit(self, end: dict[str, Any]) -> None:
        self._release()
        done = Positions.from_json(end)
        self._publish_progress(done, self._latest or done)

    def stop(self) -> None:
        self._release()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks receive a copy without connections and leases."""
        return self.__dict__ | {"_opened": None, "_leases": {}}

    def _release(self) -> None:
        """Release the leases of the last batch when it is committed or the next is planned. Otherwise they expire."""
        if self._leases and self._credentials is not None:
            LeaseRenewer(self._credentials).release(list(self._leases.values()))
        self._leases = {}

    # ---- positions

    @property
    def _topics(self) -> Topics:
        if self._opened is None:
            self._opened = Topics(self._options)
        return self._opened

    def _find_latest(self) -> Positions:
        partitions = self._topics.partitions(missing_is_none=True)
        self._latest = Positions()
        for partition, offset in self._topics.latest(partitions).items():
            self._latest.put(partition, partitions[partition], offset)
        return self._latest

    def _starts(self, begun: Positions, ends: Positions) -> dict[TopicPartition, int]:
        """Return the start offset of each partition in `ends`. Raises DataLoss if records were skipped."""
        known = self._keep_existing(begun, ends)
        starts: dict[TopicPartition, int] = {}
        new: list[TopicPartition] = []
        for partition, end in ends.partitions():
            offset = known.find(partition)
            if offset is None:
                new.append(partition)
                continue
            if end < offset:
                self._on_data_loss(f"{partition} ends at offset {end}, before the query's offset {offset}")
            starts[partition] = min(offset, end)
        for partition, earliest in self._topics.earliest(new).items():
            if earliest > 0:
                self._on_data_loss(f"{partition} is new to the query but starts at offset {earliest} instead of 0")
            starts[partition] = earliest
        return starts

    def _keep_existing(self, begun: Positions, ends: Positions) -> Positions:
        """Return the positions of topics that still exist with the same ID."""
        kept = Positions()
        for topic, position in begun.items():
            if topic in ends and ends[topic].id != position.id:
                self._on_data_loss(f"Topic {topic!r} was deleted and recreated")
            else:
                kept[topic] = position
        gone = [str(partition) for partition, _ in kept.partitions() if ends.find(partition) is None]
        if gone:
            self._on_data_loss(f"Partitions {', '.join(gone)} no longer exist")
        return kept

    def _on_data_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        _log.warning("%s. The query continues with the remaining data.", what)

    def _limit_ends(
        self, starts: Mapping[TopicPartition, int], latest: Positions, limit: ReadLimit
    ) -> Positions | None:
        """Return the end of the next batch, or None to wait for minOffsetsPerTrigger."""
        ends = dict(latest.partitions())
        available = sum(max(end - starts[partition], 0) for partition, end in ends.items())
        if not isinstance(limit, ReadAllAvailable):
            least, most = self._options.offsets_per_trigger_min, self._options.offsets_per_trigger_max
            if isinstance(limit, ReadMaxRows):
                most = limit.max_rows
            waited_s = time.monotonic() - self._last_batch_at
            if (
                least is not None
                and self._target is None
                and available < least
                and waited_s < self._options.trigger_delay_s_max
            ):
                return None
            if most is not None:
                ends = limit_offsets(starts, ends, most)
        limited = Positions()
        for partition, end in ends.items():
            limited.put(partition, latest[partition.topic].id, end)
        return limited

    def _publish_progress(self, done: Positions, there: Positions) -> None:
        """Commit the offsets to a group for other tools. The query does not depend on it, so errors are only logged."""
        group_id = self._options.group_id
        if group_id is None or done == self._published:
            return
        offsets = {
            partition: offset
            for partition, offset in done.partitions()
            if there.find(partition) is not None and there[partition.topic].id == done[partition.topic].id
        }
        if not offsets:
            return
        try:
            Groups(self._topics.cluster).show_progress(group_id, offsets)
        except (ClientError, KafkaError) as error:
            _log.warning("Cannot commit the query's offsets to group %s: %s", group_id, error)
        else:
            self._published = done
