"""Partition leaders ensure that a transaction includes a partition: they verify it, or add it (KIP-890).

They send AddPartitionsToTxn requests, except to a coordinator on the same broker.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_LEADER, TopicPartition, partitions_by_topic
from odradek.broker.coordinators.broker_queues import BrokerPeers, BrokerQueues
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    AddPartitions,
    AddPartitionsResponse,
    Command,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from odradek.server.peer import NotServed, PeerError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, SerialError

logger = logging.getLogger(__name__)

FIRST_VERSION_FOR_BROKERS: Final = 4
TRANSACTIONS_PER_REQUEST_MAX: Final = 500

Errors = Mapping[TopicPartition, ErrorCode]


class _NoVerification(Exception):
    """The coordinator runs a release before KIP-890."""


class _PendingRequest(NamedTuple):
    command: AddPartitions | VerifyPartitions
    done: DeferredResponse
    """Its result is `Errors`."""

    def complete(self, errors: Errors) -> None:
        self.done.complete(errors)

    def complete_all(self, code: ErrorCode) -> None:
        self.complete(dict.fromkeys(self.command.partitions, code))


class AddPartitionsSender:
    def __init__(
        self,
        node_id: int,
        peers: BrokerPeers,
        *,
        image: Callable[[], ClusterImage],
        partition_of: Callable[[str], int],
        submit: Callable[[Command], DeferredResponse],
    ) -> None:
        self._node_id: Final = node_id
        self._peers: Final = peers
        self._image: Final = image
        self._partition_of: Final = partition_of
        self._submit: Final = submit
        self._queues: Final = BrokerQueues[_PendingRequest](self._send, TRANSACTIONS_PER_REQUEST_MAX)

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> DeferredResponse:
        """The result is the coordinator's error for each partition: NONE if the transaction includes it, or it was
        added."""
        command: AddPartitions | VerifyPartitions
        if adds:
            command = AddPartitions(transactional_id, producer_id, producer_epoch, partitions, EPOCH_INCREMENTS_SINCE)
        else:
            command = VerifyPartitions(transactional_id, producer_id, producer_epoch, partitions)
        leader = self._coordinator_of(transactional_id)
        if leader == NO_LEADER:
            return DeferredResponse.from_result(dict.fromkeys(partitions, ErrorCode.coordinator_not_available))
        if leader == self._node_id:
            deferred = self._submit(command)
            deferred.convert(partial(_errors_of, partitions))
            return deferred
        pending = _PendingRequest(command, DeferredResponse())
        self._queues.add(leader, pending)
        return pending.done

    def stop(self) -> None:
        self._queues.stop()

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        partition = None if topic is None else topic.partitions.get(self._partition_of(transactional_id))
        return NO_LEADER if partition is None else partition.leader

    async def _send(self, broker_id: int, entries: list[_PendingRequest]) -> None:
        # A request may name a transactional id once: the response refers to it by its name.
        by_name: dict[str, _PendingRequest] = {}
        for pending in entries:
            if by_name.setdefault(pending.command.transactional_id, pending) is not pending:
                self._queues.add(broker_id, pending)
        await self._send_one_each(broker_id, by_name)

    async def _send_one_each(self, broker_id: int, by_name: dict[str, _PendingRequest]) -> None:
        try:
            for name, errors in (await self._request(broker_id, by_name)).items():
                by_name[name].complete(errors)
        except (NotServed, _NoVerification) as error:
            # Kafka, too, skips verification while a cluster is upgraded from such a release.
            logger.warning("Broker %d does not verify transactions: %s", broker_id, error)
            for pending in by_name.values():
                pending.complete_all(ErrorCode.none)
        except (PeerError, SerialError, ValueError) as error:
            logger.info("Request to the transaction coordinator on broker %d failed: %s", broker_id, error)
        finally:
            # In every case, because a producer waits for it.
            for pending in by_name.values():
                pending.complete_all(ErrorCode.network_exception)

    async def _request(self, broker_id: int, by_name: Mapping[str, _PendingRequest]) -> dict[str, Errors]:
        """The coordinator's errors by transactional id; some may be missing."""
        response = await self._peers.request(
            broker_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            lambda chosen: _build_request(chosen, [pending.command for pending in by_name.values()]),
        )
        if response.error_code is not ErrorCode.none:
            return {name: dict.fromkeys(one.command.partitions, response.error_code) for name, one in by_name.items()}
        return {
            one.transactional_id: _errors(one)
            for one in response.results_by_transaction
            if one.transactional_id in by_name
        }


def _errors_of(
    partitions: frozenset[TopicPartition], response: AddPartitionsResponse | VerifyPartitionsResponse
) -> Errors:
    if isinstance(response, VerifyPartitionsResponse):
        return {name: response.of(name) for name in partitions}
    return dict.fromkeys(partitions, response.error)


def _errors(result: Message) -> Errors:
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_error_code
        for topic in result.topic_results
        for one in topic.results_by_partition
    }


def _build_request(chosen: Schema, commands: list[AddPartitions | VerifyPartitions]) -> Message:
    if chosen.version < FIRST_VERSION_FOR_BROKERS:
        raise _NoVerification(f"AddPartitionsToTxn version {chosen.version} is for clients")
    return chosen.new(
        "AddPartitionsToTxnRequest",
        transactions=tuple(
            chosen.new(
                "AddPartitionsToTxnTransaction",
                transactional_id=command.transactional_id,
                producer_id=command.producer_id,
                producer_epoch=command.producer_epoch,
                verify_only=isinstance(command, VerifyPartitions),
                topics=tuple(
                    chosen.new("AddPartitionsToTxnTopic", name=topic, partitions=indexes)
                    for topic, indexes in partitions_by_topic(command.partitions).items()
                ),
            )
            for command in commands
        ),
    )
