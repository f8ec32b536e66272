"""All coordinators of this broker, created when first needed: a broker without coordinators does not import them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from odradek.base.ports import Clock, Random, Workers
from odradek.broker.producer_ids import ProducerIds
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.server.security import PeerSecurity
from odradek.storage.partition.partition import Partition

if TYPE_CHECKING:
    from odradek.broker.coordinators.group_service import GroupService
    from odradek.broker.coordinators.marker_sender import WriteHere
    from odradek.broker.coordinators.transaction_service import TransactionService


class BrokerCoordinators:
    def __init__(
        self,
        current: Callable[[], NodeConfig],
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random: Random,
        workers: Workers,
        producer_ids: ProducerIds,
        write_markers: "WriteHere",
        on_disk_failure: Callable[[str, OSError], None],
        peer_security: PeerSecurity,
    ) -> None:
        self._current: Final = current
        self._image: Final = image
        self._clock: Final = clock
        self._random: Final = random
        self._workers: Final = workers
        self._producer_ids: Final = producer_ids
        self._write_markers: Final = write_markers
        self._on_disk_failure: Final = on_disk_failure
        self._peer_security: Final = peer_security
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None

    @property
    def groups(self) -> "GroupService":
        if self._groups is None:
            from odradek.broker.coordinators.group_service import GroupService

            self._groups = GroupService(
                self._current,
                new_uuid=lambda: UUID(bytes=self._random.randbytes(16), version=4),
                image=self._image,
                clock=self._clock,
                workers=self._workers,
                on_disk_failure=self._on_disk_failure,
            )
        return self._groups

    @property
    def transactions(self) -> "TransactionService":
        if self._transactions is None:
            from odradek.broker.coordinators.transaction_service import TransactionService

            self._transactions = TransactionService(
                self._current(),
                image=self._image,
                clock=self._clock,
                random=self._random,
                workers=self._workers,
                producer_ids=self._producer_ids,
                write_here=self._write_markers,
                on_disk_failure=self._on_disk_failure,
                peer_security=self._peer_security,
            )
        return self._transactions

    @property
    def existing_services(self) -> "tuple[GroupService | None, TransactionService | None]":
        """For reads. None: not needed yet."""
        return self._groups, self._transactions

    def update_role(self, partition: Partition) -> None:
        """Call when this broker becomes or stays the leader or a follower of the partition."""
        topic = partition.name.topic
        if topic == CONSUMER_OFFSETS and (partition.is_leader or self._groups is not None):
            self.groups.runtime.update_role(partition)
        elif topic == TRANSACTION_STATE and (partition.is_leader or self._transactions is not None):
            self.transactions.runtime.update_role(partition)

    def unload(self, partition: Partition) -> None:
        """Call when the partition is removed from this broker, or its log dir fails."""
        if self._groups is not None and partition.name.topic == CONSUMER_OFFSETS:
            self._groups.runtime.unload(partition)
        if self._transactions is not None and partition.name.topic == TRANSACTION_STATE:
            self._transactions.runtime.unload(partition)

    def on_image_change(self, delta: ImageDelta) -> None:
        if self._groups is not None:
            self._groups.on_image_change(delta)

    def stop(self) -> None:
        if self._groups is not None:
            self._groups.runtime.stop()
        if self._transactions is not None:
            self._transactions.stop()
