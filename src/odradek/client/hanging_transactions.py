"""Finds hanging transactions: open in a log, but no coordinator will end them, so they block read_committed consumers.

As in kafka-transactions, they are open for longer than the maximum timeout and unknown to their coordinator.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.coordinators import raise_if_error
from odradek.client.transactions import ProducerState, TransactionDescription, Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    partition: TopicPartition
    producer: ProducerState


def find_hanging(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    *,
    broker_id: int | None,
    idle_since_ms: int,
    on_response: Callable[[int], None] = lambda amount: None,
) -> list[OpenTransaction]:
    """Return the hanging transactions whose last record is older than `idle_since_ms`."""
    transactions = Transactions(cluster)
    found = transactions.producers(partitions, broker_id=broker_id, on_response=on_response)
    candidates = [
        OpenTransaction(partition=partition, producer=producer)
        for partition, producers in sorted(found.items())
        for producer in producers
        if producer.start_offset is not None and producer.last_timestamp_ms < idle_since_ms
    ]
    if not candidates:
        return []
    producer_ids = {one.producer.producer_id for one in candidates}
    names = {
        one.producer_id: one.transactional_id
        for one in transactions.listings(producer_ids=producer_ids)
        if one.producer_id in producer_ids
    }
    described = transactions.describe(names.values())
    return [
        one
        for one in candidates
        if not _will_end(one, _find_description(described, names.get(one.producer.producer_id)))
    ]


def _find_description(
    described: dict[str, TransactionDescription | KafkaError], name: str | None
) -> TransactionDescription | None:
    result = None if name is None else described[name]
    if isinstance(result, KafkaError) and result.code is ErrorCode.transactional_id_not_found:
        return None
    return None if result is None else raise_if_error(result)


def _will_end(one: OpenTransaction, description: TransactionDescription | None) -> bool:
    """Return whether the coordinator will write a marker: the partition is part of the transaction."""
    return description is not None and one.partition in description.partitions
