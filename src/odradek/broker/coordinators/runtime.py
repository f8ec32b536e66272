"""The coordinator runtime of one internal topic: one context for each of its partitions that this broker leads.

The broker reports changes of leadership to it.
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ports import Clock, Workers
from odradek.broker.coordinators.context import CoordinatorContext
from odradek.broker.coordinators.shard import A, C, CoordinatorKind, CoordinatorShard, R, Result
from odradek.storage.partition.partition import Partition


class NotCoordinator(Generic[C, A, R]):
    """Stands for the coordinator of a partition that this broker does not lead."""

    def __init__(self, kind: CoordinatorKind[C, A, R]) -> None:
        self._kind: Final = kind

    def submit(self, command: C) -> DeferredResponse:
        return DeferredResponse.from_result(self._kind.error_response(command, ErrorCode.not_coordinator))


class CoordinatorRuntime(Generic[C, A, R]):
    def __init__(
        self,
        kind: CoordinatorKind[C, A, R],
        *,
        clock: Clock,
        workers: Workers,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        self.kind: Final = kind
        self._clock: Final = clock
        self._workers: Final = workers
        self._on_disk_failure: Final = on_disk_failure
        self._contexts: Final[dict[int, CoordinatorContext[C, A, R]]] = {}
        self._not_coordinator: Final = NotCoordinator(kind)

    # ---- leadership

    def update_role(self, partition: Partition) -> None:
        """Loads the coordinator of a partition that this broker leads in a new epoch; unloads that of another's."""
        context = self._contexts.get(partition.name.partition)
        if not partition.is_leader:
            self.unload(partition)
        elif context is None or context.partition is not partition or context.leader_epoch != partition.leader_epoch:
            self._load(partition)

    def unload(self, partition: Partition) -> None:
        context = self._contexts.pop(partition.name.partition, None)
        if context is not None:
            context.close()

    def stop(self) -> None:
        for context in list(self._contexts.values()):
            self.unload(context.partition)

    def _load(self, partition: Partition) -> None:
        self.unload(partition)
        context = CoordinatorContext(
            partition,
            self.kind,
            clock=self._clock,
            workers=self._workers,
            on_disk_failure=self._on_disk_failure,
            reload=self._reload,
        )
        self._contexts[partition.name.partition] = context
        context.load()

    def _reload(self, partition: Partition) -> None:
        if partition.is_leader:
            self._load(partition)
        else:
            self.unload(partition)

    # ---- commands

    def context(self, index: int) -> CoordinatorContext[C, A, R] | None:
        return self._contexts.get(index)

    def contexts(self) -> Iterator[CoordinatorContext[C, A, R]]:
        """In the order of partitions."""
        return iter([self._contexts[index] for index in sorted(self._contexts)])

    def coordinator(self, index: int) -> "CoordinatorContext[C, A, R] | NotCoordinator[C, A, R]":
        return self._contexts.get(index) or self._not_coordinator

    def schedule_everywhere(self, operation: Callable[[CoordinatorShard[C, A, R], int], Result[A, R]]) -> None:
        for context in self.contexts():
            context.schedule(operation)
