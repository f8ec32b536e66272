"""Transactions for handlers: a real coordinator, whose log is a list."""

import asyncio
from typing import Any

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import AddPartitions, VerifyPartitions, VerifyPartitionsResponse
from odradek.core.transactions.descriptions import describe, list_transactions, unknown_states
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.core.transactions.transaction_harness import TransactionHarness


class HostedTransactions:
    """As handlers see transactions; everything is committed at once."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.harness = TransactionHarness(settings)

    def transaction_version(self) -> int:
        return self.harness.version

    def partition_of(self, transactional_id: str) -> int:
        return 0

    def submit(self, command: Any) -> DeferredResponse:
        return DeferredResponse.from_result(self.harness.execute(command))

    async def stock_up(self) -> None:
        pass

    def add_or_verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], *, adds: bool
    ) -> DeferredResponse:
        if adds:
            response: Any = self.harness.execute(AddPartitions(transactional_id, producer_id, epoch, partitions, 2))
            return DeferredResponse.from_result(dict.fromkeys(partitions, response.error))
        response = self.harness.execute(VerifyPartitions(transactional_id, producer_id, epoch, partitions))
        assert isinstance(response, VerifyPartitionsResponse)
        return DeferredResponse.from_result({name: response.of(name) for name in partitions})

    def completion_of(self, transactional_id: str) -> asyncio.Future[None] | None:
        return None

    def describe(self, transactional_ids: tuple[str, ...]) -> Any:
        return [describe(self.harness.coordinator, one) for one in transactional_ids]

    def list(self, producer_ids: Any, states: Any, duration_ms: int, pattern: str | None) -> Any:
        listed = list_transactions(
            self.harness.coordinator,
            self.harness.now_ms,
            producer_ids=producer_ids,
            states=states,
            duration_ms=duration_ms,
            matches=None if pattern is None else lambda name: name == pattern,
        )
        return ErrorCode.none, unknown_states(states), listed
