"""Transactions that lie open in a log although no coordinator is ever going to end them: they hold up every reader
of committed records, until somebody aborts them.

Found as kafka-transactions finds them: open for longer than any transaction may last, and unknown to their coordinator.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.coordinators import raise_if_refused
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
    on_answer: Callable[[int], None] = lambda amount: None,
) -> list[OpenTransaction]:
    """Those of them of which the last record is older than `idle_since_ms`."""
    transactions = Transactions(cluster)
    found = transactions.producers(partitions, broker_id=broker_id, on_answer=on_answer)
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
    return [one for one in candidates if not _will_end(one, _described(described, names.get(one.producer.producer_id)))]


def _described(
    described: dict[str, TransactionDescription | KafkaError], name: str | None
) -> TransactionDescription | None:
    answer = None if name is None else described[name]
    if isinstance(answer, KafkaError) and answer.code is ErrorCode.transactional_id_not_found:
        return None
    return None if answer is None else raise_if_refused(answer)


def _will_end(one: OpenTransaction, description: TransactionDescription | None) -> bool:
    """Whether the coordinator is going to write the marker: it counts the partition among the transaction's."""
    return description is not None and one.partition in description.partitions
