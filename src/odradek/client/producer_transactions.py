"""A transactional producer's requests to its coordinator: who it is, what its transaction holds, and its end.

Ends and partitions are asked for until they are answered: repeated, they are answered the same. Who the producer is, is
asked once: to ask again may abort what was begun in the name meanwhile.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import Admin, Resource, ResourceType, raise_refusal
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.coordinators import (
    Answers,
    Coordinator,
    CoordinatorType,
    answer_of,
    ask_coordinators,
    find_coordinator,
    raise_if_refused,
)
from odradek.client.features import finalized_features
from odradek.core.transactions.commands import EPOCHS_RISE_SINCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# Version 6 is for transactions in two phases (KIP-939), and served only where they are.
_FIRST_IN_TWO_PHASES: Final = 6
_LAST_WITHOUT_RISE: Final = 4
# Later versions are for brokers.
_LAST_TO_ADD: Final = 3
_TIMEOUT_CONFIG: Final = "transaction.max.timeout.ms"
_TIMEOUT_UNLESS_SAID_MS: Final = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTerms:
    """What the cluster has to offer, asked for once."""

    epochs_rise: bool
    """With every end of a transaction (transaction.version 2); a partition is then added by its first batch."""
    timeout_ms_max: int
    in_two_phases: bool = True
    """To be asked for: without a timeout, where a coordinator has that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Whoever holds this writes to the transaction."""

    transactional_id: str
    producer: ProducerIdentity
    epochs_rise: bool
    first_sequence: int = 0
    """Higher if this producer has written to the partition before, in transactions that have ended."""


def transaction_terms(cluster: Cluster) -> TransactionTerms:
    rises = finalized_features(cluster).get("transaction.version", 0) >= EPOCHS_RISE_SINCE
    return TransactionTerms(epochs_rise=rises, timeout_ms_max=_timeout_ms_max(cluster))


def _timeout_ms_max(cluster: Cluster) -> int:
    """The least of all brokers': any of them may coordinate. Who may not look takes Kafka's default."""
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
    """Asks once; aborts what is open in the name. `in_two_phases`: without a timeout, where the coordinator has that.

    Raises KafkaError, also for what may pass, and ClientError: then it may have been done, or be done later.
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

    def ask(*, enables: bool) -> Message:
        return cluster.ask(
            coordinator.address,
            ApiKey.INIT_PRODUCER_ID,
            lambda chosen: build(chosen, enables=enables),
            highest=_FIRST_IN_TWO_PHASES if enables else _FIRST_IN_TWO_PHASES - 1,
        )

    coordinator = find_coordinator(cluster, CoordinatorType.TRANSACTION, transactional_id)
    response = ask(enables=in_two_phases)
    if in_two_phases and response.error_code is ErrorCode.transactional_id_authorization_failed:
        # Two phases are a permission of their own.
        response = ask(enables=False)
    raise_refusal(response)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def end_transaction(cluster: Cluster, member: Membership, *, commits: bool) -> ProducerIdentity:
    """Answered by who may begin the next one. Raises KafkaError; TimedOut: it may have been done, or be done later."""
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

    def ask(coordinator: Coordinator, keys: Sequence[str]) -> Answers[ProducerIdentity]:
        highest = None if member.epochs_rise else _LAST_WITHOUT_RISE
        response = cluster.ask(coordinator.address, ApiKey.END_TXN, build, highest=highest)
        return {member.transactional_id: answer_of(response, lambda: read(response))}

    what = f"ending transaction {member.transactional_id!r}"
    answers = ask_coordinators(cluster, CoordinatorType.TRANSACTION, (member.transactional_id,), what, ask)
    return raise_if_refused(answers[member.transactional_id])


def add_partitions(cluster: Cluster, member: Membership, partitions: Collection[TopicPartition]) -> None:
    """Before the first batch of each, where epochs do not rise."""

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

    def ask(coordinator: Coordinator, keys: Sequence[str]) -> Answers[None]:
        response = cluster.ask(coordinator.address, ApiKey.ADD_PARTITIONS_TO_TXN, build, highest=_LAST_TO_ADD)
        codes = {
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        } - {ErrorCode.none, ErrorCode.operation_not_attempted}
        return {member.transactional_id: KafkaError(min(codes)) if codes else None}

    what = f"adding partitions to transaction {member.transactional_id!r}"
    answers = ask_coordinators(cluster, CoordinatorType.TRANSACTION, (member.transactional_id,), what, ask)
    raise_if_refused(answers[member.transactional_id])
