"""The partitions of one request that a transaction has not written to before: their coordinator is asked for all at
once, and before anything is written (KIP-890)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.ports import BrokerPort
from odradek.storage.log.verification import Verification
from odradek.storage.partition.partition import Partition

VERIFICATION: Final = "transaction.partition.verification.enable"
BACKOFF: Final = "add.partitions.to.txn.retry.backoff.ms"
BACKOFF_MAX: Final = "add.partitions.to.txn.retry.backoff.max.ms"
# A coordinator on another broker has to be asked again. An end is mostly over within a few milliseconds: Kafka's pause
# of 20 would be most of what a short transaction takes.
FIRST_PAUSE_SECONDS: Final = 0.001


class TransactionVerifier:
    def __init__(self, broker: BrokerPort, transactional_id: str, *, adds: bool, knows_abortable: bool) -> None:
        """If it `adds`, partitions become parts of the transaction; else they have to be."""
        self._broker: Final = broker
        self._transactional_id: Final = transactional_id
        self._adds: Final = adds
        self._knows_abortable: Final = knows_abortable
        self._asks: Final = adds or bool(broker.config.effective(VERIFICATION))
        self._producer: tuple[int, int] | None = None
        self._names: Final[set[TopicPartition]] = set()
        self._asking: asyncio.Future[Mapping[TopicPartition, ErrorCode]] | None = None

    def begin(self, partition: Partition, producer_id: int, epoch: int, sequence: int) -> Verification | None:
        """None: there is nothing to ask. Raises KafkaError for an epoch that has passed."""
        asked = partition.log.producers.begin_verification(
            producer_id, epoch, sequence, epochs_rise=self._adds, now_ms=self._broker.clock.wall_ms()
        )
        if asked is not None:
            self._producer = self._producer or (producer_id, epoch)
            if self._producer == (producer_id, epoch):
                self._names.add(partition.name)
        return asked

    async def error_of(self, name: TopicPartition) -> ErrorCode:
        if name not in self._names:
            return ErrorCode.invalid_producer_id_mapping
        if not self._asks:
            return ErrorCode.none
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
        errors = await asyncio.shield(self._asking)
        return self._translated(errors.get(name, ErrorCode.none))

    async def _ask(self) -> Mapping[TopicPartition, ErrorCode]:
        """The transaction before may be about to end: that is waited for a little, not to make the client wait more."""
        assert self._producer is not None
        config, clock = self._broker.config, self._broker.clock
        deadline = clock.monotonic() + config.effective_number(BACKOFF_MAX) / 1000
        longest_pause_seconds = config.effective_number(BACKOFF) / 1000
        pause_seconds = min(FIRST_PAUSE_SECONDS, longest_pause_seconds)
        names = frozenset(self._names)
        while True:
            errors = await self._broker.transactions.add_or_verify_partitions(
                self._transactional_id, *self._producer, names, adds=self._adds
            )
            if ErrorCode.concurrent_transactions not in errors.values() or clock.monotonic() >= deadline:
                return errors
            freed = self._broker.transactions.completion_of(self._transactional_id)
            if freed is None:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, longest_pause_seconds)
            else:
                await asyncio.wait((freed,), timeout=max(0.0, deadline - clock.monotonic()))

    def _translated(self, error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and not self._knows_abortable:
            return ErrorCode.invalid_txn_state
        return error
