"""The topic in which drivers store their decisions, in transactions.

It also issues tickets: the offsets of empty records are unique numbers.
"""

import time
from collections.abc import Callable
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumer
from odradek.client.errors import NotYet, UnknownTopic
from odradek.client.layout import TopicLayout
from odradek.client.partitioner import partition_of_key
from odradek.client.produce import Producer
from odradek.client.producer_transactions import TransactionHandle
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.exactly_once.states import State, from_json, to_json
from odradek.records.record import Record

# A sink's partition must never change, even if partitions are added, or its state would not be found.
PARTITIONS: Final = 16
_REPLICAS: Final = 3
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": str(6 * 60 * 60 * 1000),
}
# The state is usually one of the last records of its partition, so search backwards from the end.
_FIRST_SEARCH_OFFSETS: Final = 500
_NEXT_SEARCH_FACTOR: Final = 16
_POLL_MS: Final = 500


class DecisionLog:
    def __init__(self, cluster: Cluster, topic: str, sink: str) -> None:
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)
        self._key: Final = sink.encode()
        self._partition: Final = TopicPartition(topic, partition_of_key(self._key, PARTITIONS))

    def ensure(self) -> None:
        """Create the topic if it does not exist. Raises OptionError if it has too few partitions."""
        topic = self._partition.topic
        try:
            found = self._layout(self._cluster.topics)
        except UnknownTopic:
            self._create(topic)
            found = self._layout(self._require_topic)
        if len(found.partitions) < PARTITIONS:
            raise OptionError(
                f"Option decisionTopic: topic {topic!r} has {len(found.partitions)} partitions but needs {PARTITIONS}. "
                f"Choose a topic that does not exist yet, or create a compacted topic with {PARTITIONS} partitions."
            )

    def read(self) -> State | None:
        """Return the last committed state at the time of the call."""
        end = self._wait_for_stable_end()
        earliest = self._offset(EARLIEST)
        span = _FIRST_SEARCH_OFFSETS
        while True:
            start = max(earliest, end - span)
            found = self._find_last(start, end)
            if found is not None or start == earliest:
                return None if found is None else from_json(found)
            span *= _NEXT_SEARCH_FACTOR

    def write(self, member: TransactionHandle, state: State) -> None:
        """Write to the member's transaction."""
        self._append(Producer(self._cluster, transaction=member), Record(self._key, to_json(state), _now_ms()))

    def next_ticket(self) -> int:
        # A decision's transaction marker has an offset too, and may be written after EndTxn returns.
        self._wait_for_stable_end()
        return self._offset(LATEST)

    def take_ticket(self) -> int:
        # If the record is sent again because the response was lost, the first number stays unused.
        producer = Producer(self._cluster, is_idempotent=False)
        return self._append(producer, Record(self._key + b".ticket", None, _now_ms()))

    def _append(self, producer: Producer, record: Record) -> int:
        producer.add(self._partition.topic, record, self._partition.partition)
        (stored,) = producer.flush()
        return stored.base_offset

    def _offset(self, which: int, *, read_committed: bool = False) -> int:
        return self._admin.offsets({self._partition: which}, read_committed=read_committed)[self._partition]

    def _wait_for_stable_end(self) -> int:
        """Return the end of the log after all transactions before it have ended."""
        end = self._offset(LATEST)
        self._cluster.retry(f"waiting for open transactions in {self._partition}", lambda: self._check_stable(end))
        return end

    def _check_stable(self, end: int) -> None:
        if self._offset(LATEST, read_committed=True) < end:
            raise NotYet("a transaction is still open")

    def _find_last(self, start: int, end: int) -> bytes | None:
        consumer = Consumer(self._cluster, {self._partition: start}, read_committed=True)
        last = None
        while (position := consumer.positions[self._partition]) < end:
            for consumed in consumer.poll(wait_ms=_POLL_MS):
                if consumed.record.key == self._key:
                    last = consumed.record.value
            if consumer.positions[self._partition] == position:
                # Compaction has removed the rest.
                break
        return last

    def _layout(self, query: Callable[[list[str]], dict[str, TopicLayout]]) -> TopicLayout:
        topic = self._partition.topic
        return self._cluster.retry(f"looking up topic {topic!r}", lambda: query([topic])[topic])

    def _require_topic(self, names: list[str]) -> dict[str, TopicLayout]:
        try:
            return self._cluster.topics(names)
        except UnknownTopic as error:
            raise NotYet(str(error)) from None

    def _create(self, topic: str) -> None:
        replicas = min(_REPLICAS, len(self._cluster.layout().brokers))
        configs = _CONFIGS | ({"min.insync.replicas": "2"} if replicas == _REPLICAS else {})
        try:
            self._admin.create_topic(topic, partitions=PARTITIONS, replication_factor=replicas, configs=configs)
        except KafkaError as error:
            if error.code is not ErrorCode.topic_already_exists:
                raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
