"""The broker as its API handlers see it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.ports import ForwardingPort, Random
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.record_walks import RecordWalks
from odradek.config.topic_config import TopicConfig
from odradek.core.groups.commands import Command as GroupCommand
from odradek.core.groups.commands import DescribedConsumerGroup, DescribedGroup, ListedGroup
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.core.transactions.commands import Command as TransactionCommand
from odradek.core.transactions.commands import DescribedTransaction, ListedTransaction
from odradek.records.control import EndTransactionMarker
from odradek.server.context import NodePort
from odradek.storage.log.log_dirs import LogDirs
from odradek.storage.partition.log_dir_moves import LogDirMoves
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition
from odradek.storage.partition.rejected_batches import RejectedBeforeCreation

C = TypeVar("C", contravariant=True)


class CoordinatorPort(Protocol[C]):
    def submit(self, command: C) -> DeferredResponse:
        """The coordinator's response, which may be complete at once: most heartbeats need not wait."""


class GroupsPort(Protocol):
    """The group coordinators of this broker. Their commands and responses are in `core/groups/commands`."""

    def partition_of(self, group_id: str) -> int:
        """Of `__consumer_offsets`, whose leader coordinates the group."""

    def coordinator_of(self, group_id: str) -> CoordinatorPort[GroupCommand]: ...

    def coordinator_at(self, partition: int) -> CoordinatorPort[GroupCommand]:
        """For a command to several groups of one partition."""

    def describe(self, group_ids: Sequence[str], version: int) -> Sequence[DescribedGroup]: ...

    def describe_consumers(self, group_ids: Sequence[str]) -> Sequence[DescribedConsumerGroup]: ...

    def list(self, states: Collection[str], kinds: Collection[str]) -> tuple[ErrorCode, Sequence[ListedGroup]]:
        """Of those that are coordinated here."""

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> DeferredResponse:
        """Writes the marker into a partition of `__consumer_offsets`. The result is an error code, when the marker is
        committed or cannot be."""


class TransactionsPort(Protocol):
    """The transaction coordinators of this broker, and those of other brokers for partitions that verify transactions.

    Their commands and responses are in `core/transactions/commands`.
    """

    def transaction_version(self) -> int:
        """The level of the feature that the cluster has agreed upon."""

    def partition_of(self, transactional_id: str) -> int:
        """Of `__transaction_state`, whose leader coordinates the transaction."""

    def submit(self, command: TransactionCommand) -> DeferredResponse: ...

    async def stock_up(self) -> None:
        """Returns when a coordinator that needs a new producer id will find one. Raises KafkaError."""

    def add_or_verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> DeferredResponse:
        """Adds partitions to the transaction, or verifies that it includes them, with its coordinator on any broker.

        The result is the error code of each partition, by partition."""

    def completion_of(self, transactional_id: str) -> "asyncio.Future[None] | None":
        """Done when the transaction's pending transition is complete. Several callers share it, so it must not be
        cancelled. None where there is none, or where another broker is the coordinator."""

    def describe(self, transactional_ids: Iterable[str]) -> Sequence[DescribedTransaction]: ...

    def list(
        self,
        producer_ids: Collection[int],
        states: Collection[str],
        duration_ms: int,
        pattern: str | None,
    ) -> tuple[ErrorCode, Sequence[str], Sequence[ListedTransaction]]:
        """Of those that are coordinated here; and which of the states do not exist. Raises KafkaError for a pattern
        that is none."""


class UnreachableLeadersPort(Protocol):
    def on_disconnect(self, broker_id: int, broker_epoch: int, host: str, port: int) -> None:
        """The connection to this registration of a leader has closed."""

    def ids(self) -> Collection[int]: ...


class BrokerPort(NodePort, Protocol):
    """The broker as handlers see it. Its controller is the active one, wherever it runs."""

    @property
    def controller(self) -> ForwardingPort: ...

    @property
    def random(self) -> Random: ...

    @property
    def log_dirs(self) -> LogDirs: ...

    @property
    def threads_of(self) -> Callable[[str], LogDirThreads]:
        """The threads of a log dir, by its path."""

    @property
    def log_dir_moves(self) -> LogDirMoves: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def metadata_cache(self) -> MetadataCache: ...

    @property
    def leader_throttle(self) -> ReplicationThrottle:
        """Of what followers fetch here."""

    @property
    def rejected_before_creation(self) -> RejectedBeforeCreation:
        """Batches of producers that were quicker than the partition."""

    @property
    def record_walks(self) -> RecordWalks: ...

    def partition(self, topic: str, index: int) -> Partition | None: ...

    def partitions(self) -> Mapping[tuple[str, int], Partition]: ...

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition belongs here and has no log, because its log dir is offline."""

    def topic_config(self, topic: str) -> TopicConfig: ...

    async def check_config(self, stored: Mapping[str, str]) -> None:
        """Whether the broker can apply these dynamic configs of its own. Raises KafkaError."""

    def fail_log_dir(self, directory: str, error: OSError) -> None:
        """Takes a log dir offline after a disk error: requests for its partitions fail with KAFKA_STORAGE_ERROR."""

    def unreachable_leaders(self) -> Collection[int]:
        """Partition leaders whose process seems to have died a moment ago."""

    @property
    def groups(self) -> GroupsPort: ...

    @property
    def transactions(self) -> TransactionsPort: ...

    def create_internal_topic(self, name: str) -> None:
        """Starts to create the topic unless that is in progress. The result is logged; callers retry."""

    async def next_producer_id(self) -> int: ...

    def send_isr_proposal(self, partition: Partition) -> None:
        """Sends AlterPartition if a follower has caught up or fallen behind."""
