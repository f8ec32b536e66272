"""Verifies with the coordinator that a transaction includes the partitions of a request, before the first write to them
(KIP-890)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.ports import BrokerPort
from odradek.storage.log.verification import Verification
from odradek.storage.partition.partition import Partition

VERIFICATION: Final = "transaction.partition.verification.enable"
BACKOFF: Final = "add.partitions.to.txn.retry.backoff.ms"
BACKOFF_MAX: Final = "add.partitions.to.txn.retry.backoff.max.ms"
# Between requests to a coordinator on another broker. A transaction usually ends within a few milliseconds: Kafka's
# pause of 20 ms would be most of the duration of a short transaction.
FIRST_PAUSE_SECONDS: Final = 0.001


class TransactionVerifier:
    def __init__(self, broker: BrokerPort, transactional_id: str, *, adds: bool, knows_abortable: bool) -> None:
        """`adds`: adds the partitions to the transaction, instead of only verifying them."""
        self._broker: Final = broker
        self._transactional_id: Final = transactional_id
        self._adds: Final = adds
        self._knows_abortable: Final = knows_abortable
        self._is_needed: Final = adds or bool(broker.config.effective(VERIFICATION))
        self._producer: tuple[int, int] | None = None
        self._names: Final[set[TopicPartition]] = set()
        self._first_response: DeferredResponse | None = None
        self._request: asyncio.Future[Mapping[TopicPartition, ErrorCode]] | None = None

    def begin(self, partition: Partition, producer_id: int, epoch: int, sequence: int) -> Verification | None:
        """None: the transaction has written to the partition already. Raises KafkaError for an old epoch."""
        verification = partition.log.producers.begin_verification(
            producer_id, epoch, sequence, epochs_rise=self._adds, now_ms=self._broker.clock.wall_ms()
        )
        if verification is not None:
            self._producer = self._producer or (producer_id, epoch)
            if self._producer == (producer_id, epoch):
                self._names.add(partition.name)
        return verification

    def error_now(self, name: TopicPartition) -> ErrorCode | None:
        """The coordinator's error for the only partition of a request. None: `error_of` has to wait for it.

        A coordinator on this broker usually decides at once, which saves the tasks that would wait.
        """
        assert self._names <= {name}, "several partitions are verified together"
        if name not in self._names or not self._is_needed:
            return None
        self._first_response = self._send()
        if not self._first_response.is_done:
            return None
        error: ErrorCode = self._first_response.result.get(name, ErrorCode.none)
        return None if error is ErrorCode.concurrent_transactions else self._translate(error)

    async def error_of(self, name: TopicPartition) -> ErrorCode:
        if name not in self._names:
            return ErrorCode.invalid_producer_id_mapping
        if not self._is_needed:
            return ErrorCode.none
        if self._request is None:
            self._request = asyncio.ensure_future(self._verify())
        errors = await asyncio.shield(self._request)
        return self._translate(errors.get(name, ErrorCode.none))

    async def _verify(self) -> Mapping[TopicPartition, ErrorCode]:
        """Waits a little while the previous transaction ends: cheaper than a retry by the client."""
        config, clock = self._broker.config, self._broker.clock
        deadline = clock.monotonic() + config.effective_number(BACKOFF_MAX) / 1000
        pause_max_seconds = config.effective_number(BACKOFF) / 1000
        pause_seconds = min(FIRST_PAUSE_SECONDS, pause_max_seconds)
        response, self._first_response = self._first_response, None
        while True:
            errors: Mapping[TopicPartition, ErrorCode] = await (response or self._send()).wait()
            response = None
            if ErrorCode.concurrent_transactions not in errors.values() or clock.monotonic() >= deadline:
                return errors
            completion = self._broker.transactions.completion_of(self._transactional_id)
            if completion is None:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, pause_max_seconds)
            else:
                await asyncio.wait((completion,), timeout=max(0.0, deadline - clock.monotonic()))

    def _send(self) -> DeferredResponse:
        assert self._producer is not None
        return self._broker.transactions.add_or_verify_partitions(
            self._transactional_id, *self._producer, frozenset(self._names), adds=self._adds
        )

    def _translate(self, error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and not self._knows_abortable:
            return ErrorCode.invalid_txn_state
        return error
