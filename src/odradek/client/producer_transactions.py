"""A transactional producer's requests to its coordinator: InitProducerId, AddPartitionsToTxn and EndTxn.

EndTxn and AddPartitionsToTxn are idempotent and retried. InitProducerId is sent once, because a repetition could abort
a transaction that was started with the same id meanwhile.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import Admin, Resource, ResourceType, raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.coordinators import (
    Coordinator,
    CoordinatorType,
    Results,
    find_coordinator,
    query_coordinators,
    raise_if_error,
    result_or_error,
)
from odradek.client.features import finalized_features
from odradek.client.permissions import error_of
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
)
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# Version 6 is for two-phase commit (KIP-939), which not every broker supports.
_FIRST_IN_TWO_PHASES: Final = 6
_LAST_WITHOUT_RISE: Final = 4
# Later versions are for brokers only.
_LAST_TO_ADD: Final = 3
_TIMEOUT_CONFIG: Final = "transaction.max.timeout.ms"
_TIMEOUT_UNLESS_SAID_MS: Final = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTerms:
    """The transaction features of the cluster, requested once."""

    epochs_rise: bool
    """The epoch is bumped at every end of a transaction (transaction.version 2), and the first batch of a partition
    adds it to the transaction."""
    timeout_ms_max: int
    in_two_phases: bool = True
    """The timeout to request; a coordinator with two-phase commit does not apply it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHandle:
    """The identity that allows a producer to write to the transaction."""

    transactional_id: str
    producer: ProducerIdentity
    epochs_rise: bool
    first_sequence: int = 0
    """Next sequence numbers of partitions that this producer has written to in earlier transactions."""


def transaction_terms(cluster: Cluster) -> TransactionTerms:
    rises = finalized_features(cluster).get("transaction.version", 0) >= EPOCH_INCREMENTS_SINCE
    return TransactionTerms(epochs_rise=rises, timeout_ms_max=_timeout_ms_max(cluster))


def _timeout_ms_max(cluster: Cluster) -> int:
    """Return the lowest limit of all brokers, because any may coordinate, or Kafka's default if reading is denied."""
    found = []
    for node_id in cluster.retry("looking up brokers", cluster.layout).brokers:
        try:
            values = Admin(cluster).configs(Resource(ResourceType.BROKER, str(node_id)), [_TIMEOUT_CONFIG])
        except KafkaError:
            continue
        found += [int(config.value) for config in values if config.value]
    return min(found, default=_TIMEOUT_UNLESS_SAID_MS)


def init_producer(
    cluster: Cluster, transactional_id: str, *, timeout_ms: int, in_two_phases: bool = False
) -> ProducerIdentity:
    """Send InitProducerId once, which aborts an open transaction of the id.

    `in_two_phases` requests two-phase commit, without a timeout, if the coordinator supports it. Raises KafkaError,
    also for retriable errors, and ClientError, after which the request may still take effect.
    """

    def build(chosen: Schema, *, enables: bool) -> Message:
        return chosen.new(
            "InitProducerIdRequest",
            transactional_id=transactional_id,
            transaction_timeout=milliseconds(timeout_ms),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            enable2_pc=enables,
            keep_prepared_txn=False,
        )

    def query(*, enables: bool) -> Message:
        return cluster.send_to(
            coordinator.address,
            ApiKey.INIT_PRODUCER_ID,
            lambda chosen: build(chosen, enables=enables),
            highest=_FIRST_IN_TWO_PHASES if enables else _FIRST_IN_TWO_PHASES - 1,
        )

    coordinator = find_coordinator(cluster, CoordinatorType.TRANSACTION, transactional_id)
    response = query(enables=in_two_phases)
    if in_two_phases and response.error_code is ErrorCode.transactional_id_authorization_failed:
        # Two-phase commit needs a separate permission.
        response = query(enables=False)
    raise_for_error(response, transactional_id)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def end_transaction(cluster: Cluster, member: TransactionHandle, *, commits: bool) -> ProducerIdentity:
    """End the transaction and return the identity for the next one.

    Raises KafkaError, and TimedOut, after which the request may still take effect.
    """
    producer = member.producer

    def build(chosen: Schema) -> Message:
        return chosen.new(
            "EndTxnRequest",
            transactional_id=member.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commits,
        )

    def read(response: Message) -> ProducerIdentity:
        if not member.epochs_rise:
            return producer
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[ProducerIdentity]:
        highest = None if member.epochs_rise else _LAST_WITHOUT_RISE
        response = cluster.send_to(coordinator.address, ApiKey.END_TXN, build, highest=highest)
        return {member.transactional_id: result_or_error(response, lambda: read(response), member.transactional_id)}

    what = f"ending transaction {member.transactional_id!r}"
    results = query_coordinators(cluster, CoordinatorType.TRANSACTION, (member.transactional_id,), what, query)
    return raise_if_error(results[member.transactional_id])


def add_partitions(cluster: Cluster, member: TransactionHandle, partitions: Collection[TopicPartition]) -> None:
    """Add partitions before their first batch, which transaction.version 1 and below require."""

    def build(chosen: Schema) -> Message:
        return chosen.new(
            "AddPartitionsToTxnRequest",
            v3_and_below_transactional_id=member.transactional_id,
            v3_and_below_producer_id=member.producer.producer_id,
            v3_and_below_producer_epoch=member.producer.producer_epoch,
            v3_and_below_topics=tuple(
                chosen.new_in_request("AddPartitionsToTxnTopic", name=topic, partitions=indexes)
                for topic, indexes in partitions_by_topic(partitions).items()
            ),
        )

    def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[None]:
        response = cluster.send_to(coordinator.address, ApiKey.ADD_PARTITIONS_TO_TXN, build, highest=_LAST_TO_ADD)
        topics = {
            one.partition_error_code: topic.name
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        code = min(topics.keys() - {ErrorCode.none, ErrorCode.operation_not_attempted}, default=None)
        if code is None:
            return {member.transactional_id: None}
        is_of_topic = code is ErrorCode.topic_authorization_failed
        name = topics[code] if is_of_topic else member.transactional_id
        return {member.transactional_id: error_of(code, None, ApiKey.ADD_PARTITIONS_TO_TXN, name)}

    what = f"adding partitions to transaction {member.transactional_id!r}"
    results = query_coordinators(cluster, CoordinatorType.TRANSACTION, (member.transactional_id,), what, query)
    raise_if_error(results[member.transactional_id])
