"""The coordinators of one internal topic on this broker: one for each of its partitions that is led here.

It follows leadership: whoever makes this broker the leader of a partition, or ends that, tells it here. Where there is
no coordinator, commands are refused as Kafka refuses them.
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ports import Clock, Executor
from odradek.broker.coordinators.host import PartitionHost
from odradek.broker.coordinators.machine import A, C, CoordinatorKind, Machine, R, Step
from odradek.storage.partition.partition import Partition


class Coordinators(Generic[C, A, R]):
    def __init__(
        self,
        kind: CoordinatorKind[C, A, R],
        *,
        clock: Clock,
        executor: Executor,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        self.kind: Final = kind
        self._clock: Final = clock
        self._executor: Final = executor
        self._on_disk_failure: Final = on_disk_failure
        self._hosts: Final[dict[int, PartitionHost[C, A, R]]] = {}

    # ---- leadership

    def follow(self, partition: Partition) -> None:
        """The partition has got a role here, or keeps the one it has."""
        host = self._hosts.get(partition.name.partition)
        if not partition.is_leader:
            self.leave(partition)
        elif host is None or host.partition is not partition or host.leader_epoch != partition.leader_epoch:
            self._begin(partition)

    def leave(self, partition: Partition) -> None:
        host = self._hosts.pop(partition.name.partition, None)
        if host is not None:
            host.close()

    def stop(self) -> None:
        for host in list(self._hosts.values()):
            self.leave(host.partition)

    def _begin(self, partition: Partition) -> None:
        self.leave(partition)
        host = PartitionHost(
            partition,
            self.kind,
            clock=self._clock,
            executor=self._executor,
            on_disk_failure=self._on_disk_failure,
            out_of_step=self._begin_again,
        )
        self._hosts[partition.name.partition] = host
        host.begin()

    def _begin_again(self, partition: Partition) -> None:
        if partition.is_leader:
            self._begin(partition)
        else:
            self.leave(partition)

    # ---- what is asked

    def host(self, index: int) -> PartitionHost[C, A, R] | None:
        return self._hosts.get(index)

    def hosts(self) -> Iterator[PartitionHost[C, A, R]]:
        """In the order of partitions."""
        return iter([self._hosts[index] for index in sorted(self._hosts)])

    def refuse(self, command: C, error: ErrorCode) -> DeferredResponse:
        """The response where no coordinator of this broker executes the command."""
        return DeferredResponse.completed(self.kind.refuse(command, error))

    def everywhere(self, work: Callable[[Machine[C, A, R], int], Step[A, R]]) -> None:
        """A step of every coordinator here."""
        for host in self.hosts():
            host.do(work)
