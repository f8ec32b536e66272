"""What a handler is given: the request's circumstances, and the node as far as handlers may see it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from odradek.base.errors import ErrorCode
from odradek.base.group_commands import DescribedConsumerGroup, DescribedGroup, ListedGroup
from odradek.base.ids import TopicPartition
from odradek.base.ports import Client, Clock, ControllerPort, Executor, ForwardingPort, Random
from odradek.base.transaction_commands import DescribedTransaction, ListedTransaction
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.instruments.requests import UNCOUNTED, RequestMeter
from odradek.log.log_dirs import LogDirs
from odradek.metadata.image import ClusterImage
from odradek.partition.moves import ReplicaMoves
from odradek.partition.partition import Partition
from odradek.partition.refused_in_passing import RefusedBeforehand
from odradek.protocol.schemas import Message, Schema
from odradek.records.control import EndTransactionMarker
from odradek.replication.throttle import ReplicationThrottle
from odradek.waiting.fetch_sessions import FetchSessions


class CloseConnection:
    """Returned by a handler whose only answer is to hang up, as Kafka does for a failed Produce with acks=0."""


CLOSE_CONNECTION: Final = CloseConnection()

# An entity of the request's version, or its encoded form; None: this request gets no answer.
Response = Message | bytes | list[bytes] | CloseConnection | None
Answer = Response | Awaitable[Any]


class ConnectionPort(Protocol):
    """The connection on which a request came."""

    @property
    def was_closed_here(self) -> bool:
        """Whether it was this node that ended it. Of meaning once it has ended."""

    def on_close(self, told: Callable[[], None]) -> None:
        """Called once, when the connection has ended; soon, if it has already. The same one is kept only once."""


class NoConnection:
    """Of a request that came without one, from within the node. It does not end."""

    was_closed_here = False

    def on_close(self, told: Callable[[], None]) -> None:
        """There is nothing to tell."""


NO_CONNECTION: Final = NoConnection()


class RequestContext(NamedTuple):
    """Who asks, and for what: the same for all requests of a client to one version of an API."""

    api_key: int
    version: int
    client_id: str | None
    listener_name: str
    peer_host: str
    schema: Schema
    connection: ConnectionPort = NO_CONNECTION
    meter: RequestMeter = UNCOUNTED

    @property
    def client(self) -> Client:
        return Client(self.client_id, self.peer_host)

    def new(self, class_name: str, **values: object) -> Message:
        return self.schema[class_name](**values)


class ServingPort(Protocol):
    """Any node that answers requests."""

    @property
    def executor(self) -> Executor: ...


class ConfiguredNode(Protocol):
    """Any node, as far as its settings and those of the cluster go."""

    @property
    def config(self) -> NodeConfig:
        """What is in force, dynamic settings included."""

    @property
    def node_id(self) -> int: ...

    @property
    def image(self) -> ClusterImage: ...


class NodePort(ServingPort, ConfiguredNode, Protocol):
    """What the handlers of brokers and of controllers both need."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def controller(self) -> ControllerPort: ...


class GroupsPort(Protocol):
    """The group coordinators of this broker. What they are asked is in `base/group_commands`.

    `ask` gives the answer that belongs to the command, or a `PendingAnswer` of it: most heartbeats need not wait.
    """

    def partition_of(self, group_id: str) -> int:
        """Of `__consumer_offsets`, whose leader coordinates the group."""

    def ask(self, group_id: str, command: Any) -> Any: ...

    def ask_at(self, partition: int, command: Any) -> Any:
        """For commands that concern several groups of one partition."""

    def describe(self, group_ids: Sequence[str], version: int) -> Sequence[DescribedGroup]: ...

    def describe_consumers(self, group_ids: Sequence[str]) -> Sequence[DescribedConsumerGroup]: ...

    def list(self, states: Collection[str], kinds: Collection[str]) -> tuple[ErrorCode, Sequence[ListedGroup]]:
        """Of those that are coordinated here."""

    async def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> None:
        """Writes the marker into a partition of `__consumer_offsets`, and returns when it is committed. Raises
        KafkaError."""


class TransactionsPort(Protocol):
    """The transaction coordinators of this broker, and of others as far as partitions have to ask them.

    What they are asked is in `base/transaction_commands`. `ask` gives the answer that belongs to the command, or a
    `PendingAnswer` of it.
    """

    def transaction_version(self) -> int:
        """The level of the feature that the cluster has agreed upon."""

    def partition_of(self, transactional_id: str) -> int:
        """Of `__transaction_state`, whose leader coordinates the transaction."""

    def ask(self, transactional_id: str, command: Any) -> Any: ...

    async def stock_up(self) -> None:
        """Returns when a coordinator that needs a new producer id will find one. Raises KafkaError."""

    async def join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Asks the coordinator, wherever it is, whether partitions belong to the transaction, or adds them to it."""

    def freed(self, transactional_id: str) -> "asyncio.Future[None] | None":
        """Done when its coordinator has nothing under way for it any more. Shared: it may be waited for, not cancelled.
        None where nothing is, and where the coordinator is another broker, which says nothing unasked."""

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


class BrokerPort(NodePort, Protocol):
    """The broker as handlers see it. Its controller is the active one, wherever it runs."""

    @property
    def controller(self) -> ForwardingPort: ...

    @property
    def random(self) -> Random: ...

    @property
    def log_dirs(self) -> LogDirs: ...

    @property
    def moves(self) -> ReplicaMoves: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def leader_throttle(self) -> ReplicationThrottle:
        """Of what followers fetch here."""

    @property
    def refused_beforehand(self) -> RefusedBeforehand:
        """Batches of producers that were quicker than the partition."""

    def partition(self, topic: str, index: int) -> Partition | None: ...

    def partitions(self) -> Mapping[tuple[str, int], Partition]: ...

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition belongs here and has no log, because its log dir is offline."""

    def topic_config(self, topic: str) -> TopicConfig: ...

    def fail_log_dir(self, directory: str, error: OSError) -> None:
        """Takes a log dir offline after an error of its disk: what was on it is answered with KAFKA_STORAGE_ERROR."""

    def vanished_leaders(self) -> Collection[int]:
        """Brokers that lead as far as is known, and whose process seems to be gone since a moment ago."""

    @property
    def groups(self) -> GroupsPort: ...

    @property
    def transactions(self) -> TransactionsPort: ...

    def create_internal_topic(self, name: str) -> None:
        """Begins to, unless that is under way. How it ends is logged: who asks again sees."""

    async def next_producer_id(self) -> int: ...

    def in_sync_may_change(self, partition: Partition) -> None:
        """A follower has come so far that the controller may have to hear of it."""


class QuorumPort(Protocol):
    """This node's part in the metadata quorum, as it is asked by others."""

    @property
    def leader_id(self) -> int:
        """-1 while nobody is known to lead."""

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        """Takes and gives kio messages of exactly this API and version. Addresses are given for that listener."""


class ControllerNodePort(NodePort, Protocol):
    """A node of the metadata quorum as the handlers of its controller listeners see it, whether or not it leads.

    Its config is as it was when the node started. Its controller is this node's own, which refuses with NOT_CONTROLLER
    while another one is active.
    """

    @property
    def quorum(self) -> QuorumPort: ...

    def heard_from(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        """A heartbeat was accepted that came on this connection."""
