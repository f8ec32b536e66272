"""Admin operations on transactions: list, describe, abort and fence, and the producer state of partitions."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.coordinators import (
    Coordinator,
    CoordinatorType,
    Results,
    query_coordinators,
    query_every_broker,
    raise_if_error,
    result_or_error,
)
from odradek.client.errors import UnknownPartition
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

ANY_DURATION: Final = -1
# The request only fences the id and starts no transaction, so the timeout is never used.
_SHORTEST_TIMEOUT_MS: Final = 1
_PARTITIONS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    coordinator: Coordinator
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    """None if there has been no transaction yet."""
    partitions: tuple[TopicPartition, ...]
    """The partitions without a transaction marker yet."""

    @property
    def is_open(self) -> bool:
        return self.state == "Ongoing" or self.state.startswith("Prepare")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """The producer state of a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """None if no transaction marker was written to the partition."""
    start_offset: int | None
    """First offset of the open transaction, if there is one."""


class Transactions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def listings(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms_min: int = ANY_DURATION,
        pattern: str | None = None,
        on_response: Callable[[int], None] = lambda amount: None,
    ) -> list[TransactionListing]:
        """List the transactions of all coordinators, sorted by id. Raises KafkaError for an unknown state."""

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "ListTransactionsRequest",
                state_filters=tuple(states),
                producer_id_filters=tuple(producer_ids),
                duration_filter=duration_ms_min,
                transactional_id_pattern=pattern,
            )

        def query(node_id: int) -> list[TransactionListing]:
            response = self._cluster.send_to_broker(node_id, ApiKey.LIST_TRANSACTIONS, build)
            raise_for_error(response)
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise KafkaError(ErrorCode.invalid_request, f"unknown transaction state {unknown}")
            return [
                TransactionListing(
                    transactional_id=one.transactional_id,
                    coordinator_id=node_id,
                    producer_id=one.producer_id,
                    state=one.transaction_state,
                )
                for one in response.transaction_states
            ]

        listed = query_every_broker(self._cluster, "listing transactions", query, on_response)
        found = {one.transactional_id: one for one in listed}
        return [found[transactional_id] for transactional_id in sorted(found)]

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription | KafkaError]:
        """Describe transactions. An unknown id has the error TRANSACTIONAL_ID_NOT_FOUND."""

        def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[TransactionDescription]:
            def build(chosen: Schema) -> Message:
                return chosen.new("DescribeTransactionsRequest", transactional_ids=tuple(keys))

            response = self._cluster.send_to(coordinator.address, ApiKey.DESCRIBE_TRANSACTIONS, build)
            return {
                one.transactional_id: result_or_error(one, partial(_description, one, coordinator))
                for one in response.transaction_states
            }

        what = "describing transactions"
        return query_coordinators(self._cluster, CoordinatorType.TRANSACTION, transactional_ids, what, query)

    def producers(
        self,
        partitions: Collection[TopicPartition],
        *,
        broker_id: int | None = None,
        on_response: Callable[[int], None] = lambda amount: None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers of each partition, from its leader or from one broker with replicas."""
        found: dict[TopicPartition, list[ProducerState]] = {}
        left = iter(sorted(partitions))
        while some := list(islice(left, _PARTITIONS_AT_ONCE)):
            query = partial(self._producers_of, some, broker_id)
            found |= self._cluster.retry("describing producers", query, final=(ErrorCode.unknown_topic_or_partition,))
            on_response(len(some))
        return found

    def abort(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an abort marker. Raises KafkaError, for example for a wrong producer epoch, without any effect."""

        def build(chosen: Schema) -> Message:
            topic = chosen.new("WritableTxnMarkerTopic", name=partition.topic, partition_indexes=(partition.partition,))
            marker = chosen.new(
                "WritableTxnMarker",
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=(topic,),
                coordinator_epoch=coordinator_epoch,
                transaction_version=0,
            )
            return chosen.new("WriteTxnMarkersRequest", markers=(marker,))

        def query() -> None:
            (leader,) = self._by_leader([partition])
            response = self._cluster.send_to_broker(leader, ApiKey.WRITE_TXN_MARKERS, build)
            for marker in response.markers:
                for topic in marker.topics:
                    for one in topic.partitions:
                        raise_for_error(one, topic.name)

        self._cluster.retry(f"aborting a transaction in {partition}", query)

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of this transactional id and fence its producer."""

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "InitProducerIdRequest",
                transactional_id=transactional_id,
                transaction_timeout=milliseconds(_SHORTEST_TIMEOUT_MS),
                producer_id=-1,
                producer_epoch=-1,
                enable2_pc=False,
                keep_prepared_txn=False,
            )

        def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[None]:
            response = self._cluster.send_to(coordinator.address, ApiKey.INIT_PRODUCER_ID, build)
            return {transactional_id: result_or_error(response, lambda: None, transactional_id)}

        what = f"ending the transaction of {transactional_id!r}"
        results = query_coordinators(self._cluster, CoordinatorType.TRANSACTION, (transactional_id,), what, query)
        raise_if_error(results[transactional_id])

    def _producers_of(
        self, partitions: Sequence[TopicPartition], broker_id: int | None
    ) -> dict[TopicPartition, list[ProducerState]]:
        by_broker = self._by_leader(partitions) if broker_id is None else {broker_id: list(partitions)}
        found = {}
        for node_id, some in by_broker.items():
            response = self._cluster.send_to_broker(
                node_id, ApiKey.DESCRIBE_PRODUCERS, partial(_producers_request, some)
            )
            for topic in response.topics:
                for one in topic.partitions:
                    raise_for_error(one, topic.name)
                    name = TopicPartition(topic.name, one.partition_index)
                    found[name] = [_producer(state) for state in one.active_producers]
        return found

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        layouts = self._cluster.topics(tuple({one.topic for one in partitions}))
        found: dict[int, list[TopicPartition]] = {}
        for one in partitions:
            count = len(layouts[one.topic].partitions)
            if one.partition >= count:
                raise UnknownPartition(one.topic, one.partition, count)
            leader = layouts[one.topic].partitions[one.partition].leader
            if leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, f"{one} has no leader")
            found.setdefault(leader, []).append(one)
        return found


def _producers_request(partitions: Sequence[TopicPartition], chosen: Schema) -> Message:
    topics = tuple(
        chosen.new("TopicRequest", name=topic, partition_indexes=indexes)
        for topic, indexes in partitions_by_topic(partitions).items()
    )
    return chosen.new("DescribeProducersRequest", topics=topics)


def _producer(state: Message) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        start_offset=state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )


def _description(state: Message, coordinator: Coordinator) -> TransactionDescription:
    started = state.transaction_start_time
    return TransactionDescription(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=round(state.transaction_timeout.total_seconds() * 1000),
        started_ms=None if started is None else round(started.timestamp() * 1000),
        partitions=tuple(
            sorted(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions)
        ),
    )
