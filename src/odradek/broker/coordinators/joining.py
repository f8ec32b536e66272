"""Partition leaders ask transaction coordinators: does this transaction have a part here, or may it have (KIP-890)?

AddPartitionsToTxn, as brokers send it. A coordinator on this broker is asked without one.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_LEADER, TopicPartition, partitions_by_topic
from odradek.broker.coordinators.broker_lanes import BrokerLanes, BrokerPeers
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from odradek.core.transactions.commands import (
    EPOCHS_RISE_SINCE,
    AddPartitions,
    AddPartitionsAnswer,
    Command,
    VerifyAnswer,
    VerifyPartitions,
)
from odradek.server.peer import NotServed, PeerError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, SerialError

logger = logging.getLogger(__name__)

FIRST_OF_BROKERS: Final = 4
TRANSACTIONS_PER_REQUEST_MAX: Final = 500

Errors = Mapping[TopicPartition, ErrorCode]


class _NoVerification(Exception):
    """The coordinator is of a release before KIP-890."""


class _Asked(NamedTuple):
    command: AddPartitions | VerifyPartitions
    done: "asyncio.Future[Errors]"

    def answer(self, errors: Errors) -> None:
        if not self.done.done():
            self.done.set_result(errors)

    def refuse(self, code: ErrorCode) -> None:
        self.answer(dict.fromkeys(self.command.partitions, code))


class Joining:
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
        self._lanes: Final = BrokerLanes[_Asked](self._send, TRANSACTIONS_PER_REQUEST_MAX)

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> Errors:
        """Of each partition what the coordinator says: whether it belongs to the transaction, or was added to it."""
        command: AddPartitions | VerifyPartitions
        if adds:
            command = AddPartitions(transactional_id, producer_id, producer_epoch, partitions, EPOCHS_RISE_SINCE)
        else:
            command = VerifyPartitions(transactional_id, producer_id, producer_epoch, partitions)
        leader = self._coordinator_of(transactional_id)
        if leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
        done: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        asked = _Asked(command, done)
        if leader == self._node_id:
            self._ask_own(asked)
        else:
            self._lanes.add(leader, asked)
        return await done

    def stop(self) -> None:
        self._lanes.stop()

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        partition = None if topic is None else topic.partitions.get(self._partition_of(transactional_id))
        return NO_LEADER if partition is None else partition.leader

    def _ask_own(self, asked: _Asked) -> None:
        def take(deferred: DeferredResponse) -> None:
            answer: AddPartitionsAnswer | VerifyAnswer = deferred.result
            if isinstance(answer, VerifyAnswer):
                asked.answer({name: answer.of(name) for name in asked.command.partitions})
            else:
                asked.refuse(answer.error)

        self._submit(asked.command).on_complete(take)

    async def _send(self, broker_id: int, some: list[_Asked]) -> None:
        # One of each name: a request is answered by names.
        by_name: dict[str, _Asked] = {}
        for asked in some:
            if by_name.setdefault(asked.command.transactional_id, asked) is not asked:
                self._lanes.add(broker_id, asked)
        await self._send_one_each(broker_id, by_name)

    async def _send_one_each(self, broker_id: int, by_name: dict[str, _Asked]) -> None:
        try:
            for name, errors in (await self._ask(broker_id, by_name)).items():
                by_name[name].answer(errors)
        except (NotServed, _NoVerification) as error:
            # It knows no verification, so there is none: as Kafka has it while a cluster is upgraded.
            logger.warning("transactions are not verified: %s", error)
            for asked in by_name.values():
                asked.refuse(ErrorCode.none)
        except (PeerError, SerialError, ValueError) as error:
            logger.info("the transaction coordinator on broker %d could not be asked: %s", broker_id, error)
        finally:
            # Whatever happens: a producer waits for it.
            for asked in by_name.values():
                asked.refuse(ErrorCode.network_exception)

    async def _ask(self, broker_id: int, by_name: Mapping[str, _Asked]) -> dict[str, Errors]:
        """What the coordinator says, by transaction; some may be missing."""
        response = await self._peers.ask(
            broker_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            lambda chosen: _request(chosen, [asked.command for asked in by_name.values()]),
        )
        if response.error_code is not ErrorCode.none:
            return {name: dict.fromkeys(one.command.partitions, response.error_code) for name, one in by_name.items()}
        return {
            one.transactional_id: _errors(one)
            for one in response.results_by_transaction
            if one.transactional_id in by_name
        }


def _errors(result: Message) -> Errors:
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_error_code
        for topic in result.topic_results
        for one in topic.results_by_partition
    }


def _request(chosen: Schema, commands: list[AddPartitions | VerifyPartitions]) -> Message:
    if chosen.version < FIRST_OF_BROKERS:
        raise _NoVerification(f"version {chosen.version} is for clients")
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
