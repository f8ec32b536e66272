"""Groups for handlers: a real coordinator, whose log is a list."""

from collections.abc import Collection, Sequence
from typing import Any, Self

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import DescribedConsumerGroup, DescribedGroup, ListedGroup
from odradek.core.groups.topics import Topics
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness


class HostedGroups:
    """As handlers see groups; everything is committed at once."""

    def __init__(self, topics: Topics | None = None) -> None:
        self.harness = CoordinatorHarness(topics=topics)
        self.commands: list[Any] = []

    def partition_of(self, group_id: str) -> int:
        return 0

    def coordinator_of(self, group_id: str) -> Self:
        return self

    def coordinator_at(self, partition: int) -> Self:
        return self

    def submit(self, command: Any) -> DeferredResponse:
        self.commands.append(command)
        return DeferredResponse.from_result(self.harness.execute(command))

    def describe(self, group_ids: Sequence[str], version: int) -> Sequence[DescribedGroup]:
        return self.harness.coordinator.describe_groups(group_ids, version)

    def describe_consumers(self, group_ids: Sequence[str]) -> Sequence[DescribedConsumerGroup]:
        return self.harness.coordinator.describe_consumer_groups(group_ids)

    def list(self, states: Collection[str], kinds: Collection[str]) -> tuple[ErrorCode, Sequence[ListedGroup]]:
        return ErrorCode.none, self.harness.coordinator.list_groups(states, kinds)

    def end_transaction(self, *_: Any) -> DeferredResponse:
        return DeferredResponse.from_result(ErrorCode.none)
